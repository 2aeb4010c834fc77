"""`wakeful doctor`: checks of an installation, from Temporal to the model providers. It changes nothing of a thread."""
