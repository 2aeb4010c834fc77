"""What you write: agents, tools, gates, plugins, state keys, profiles and providers. Nothing here imports Temporal."""
