"""Delete threads: everything that the server and the stores have of them."""
