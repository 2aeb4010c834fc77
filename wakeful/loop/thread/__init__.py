"""A thread across its runs: messages, ends and cancels, continue-as-new, forks, and how it looks from outside."""
