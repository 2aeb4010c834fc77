"""OpenAI's models in a resource of Azure."""
