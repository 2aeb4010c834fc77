"""Any model of pydantic-ai: Gemini, Bedrock, Mistral, Groq, Cohere and the rest. Needs `wakeful[pydantic-ai]`."""
