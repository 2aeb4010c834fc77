"""The subcommands of `wakeful`, one file each."""
