"""What a worker serves: agents, tools, gates, plugins, models and providers. Checked and replaced as a whole."""
