"""Permission rules as pure functions: the pattern language, and which rule applies to a tool call.

Activities evaluate the rules, and the loop acts on the verdicts. Where no activity could, the loop evaluates them.
"""
