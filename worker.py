"""A Wakeful worker, `python worker.py --app module:registry [--agents DIR]`: wires them to Temporal until stopped."""

from wakeful.cli.worker import main

if __name__ == "__main__":
    main()
