"""The life of a tool call: gates, suspension, decisions, deadlines, and the commit of a step's results."""
