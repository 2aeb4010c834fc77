"""The data every room shares. Imports nothing of ours; what is written here is written to history for ever."""
