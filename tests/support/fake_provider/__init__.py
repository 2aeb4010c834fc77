"""A model provider on loopback that speaks three wire formats from one script, and breaks where it is told to.

`script` is what a test writes, `server` runs it, `models` holds answers that depend on the request. `official` holds
each request against the request types of the providers' own SDKs.
"""
