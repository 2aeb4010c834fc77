"""The sweep: every worker repairs what a terminated, reset or timed out workflow leaves undone."""
