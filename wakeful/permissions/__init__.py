"""Permission rules as pure functions: the language of patterns, and what a set of rules says of a tool call.

Nothing here acts: gates ask (`wakeful_activities/gates.py`), and the loop does what they say.
"""
