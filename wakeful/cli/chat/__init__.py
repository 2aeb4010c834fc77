"""`wakeful chat`: the prompt, the turns of a conversation, and the decisions that it asks for."""
