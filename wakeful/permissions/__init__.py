"""Permission rules as pure functions: the pattern language, and which rule applies to a tool call.

`wakeful_activities/hooks/gates.py` evaluates them, and the loop acts on the verdicts.
"""
