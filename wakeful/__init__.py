"""Wakeful: durable agents on Temporal."""
