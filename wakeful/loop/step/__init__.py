"""One step: the model call, what hooks and stop conditions make of the answer, and which agent answers."""
