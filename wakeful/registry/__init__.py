"""What a worker serves: agents, tools, plugins, models and providers, checked as a whole and replaced as a whole."""
