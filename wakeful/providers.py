"""The model providers that come with Wakeful, for a registry that needs more than the environment says.

Registry(agents=[…], models={"local": "ollama/llama3.2"}, providers={"ollama": OpenAIChat(api_key=None, …)})
"""

from wakeful_activities.providers.anthropic.provider import AnthropicMessages
from wakeful_activities.providers.openai_chat.provider import OpenAIChat
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses

__all__ = ["AnthropicMessages", "OpenAIChat", "OpenAIResponses"]
