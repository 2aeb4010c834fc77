"""Delegates, background tasks, mail between agents, and budgets over a tree of them."""
