"""Why a thread stands where it stands: evidence in, one diagnosis out. Pure: `evidence_reader.py` asks Temporal."""
