"""A Wakeful worker, `python worker.py --app module:registry`: wires a registry to Temporal, runs until stopped."""

from wakeful.cli.worker import main

if __name__ == "__main__":
    main()
