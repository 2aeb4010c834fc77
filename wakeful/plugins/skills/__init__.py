"""Skills: packages of instructions, files and scripts that a model activates when it needs them."""
