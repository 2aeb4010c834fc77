"""The sweep: what each worker repairs when runs were terminated, reset or timed out from outside."""
