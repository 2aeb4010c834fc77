"""The built-in plugins, each in its own folder. `wakeful` exports them.

They import nothing but what `wakeful` exports, so everything they do, your plugins can do: read them as examples.
"""
