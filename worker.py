"""Run a Wakeful worker until it is stopped: `python worker.py --app module:registry [--agents DIR]`.

With `--deployment NAME --build-id ID` it is a version of a Worker Deployment.
"""

from wakeful.cli.commands.worker import main

if __name__ == "__main__":
    main()
