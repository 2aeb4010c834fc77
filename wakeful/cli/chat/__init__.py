"""`wakeful chat`: the prompt, one turn after another, and the questions it asks inline."""
