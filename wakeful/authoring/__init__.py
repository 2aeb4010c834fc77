"""What users write: agents, tools, gates, plugins, state keys, profiles and providers. Nothing here knows Temporal."""
