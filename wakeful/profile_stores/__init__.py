"""The built-in profile stores, and the choice of a worker's store by its environment."""
