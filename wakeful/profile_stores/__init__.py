"""Where profiles are kept: in a SQLite file, in memory, or in PostgreSQL; `opening` chooses by an address."""
