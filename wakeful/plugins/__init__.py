"""Plugins that come along, each in a folder of its own and written on nothing but what `wakeful` exports.

They are there to be used, and to be read: whatever one of them does, a plugin of yours can do.
"""
