"""A model provider on loopback that speaks three wire formats from one script, and fails where the script says.

A test writes a `script`, and `server` runs it; `models` has answers that depend on the request. `official` validates
each request with the request types of the providers' own SDKs.
"""
