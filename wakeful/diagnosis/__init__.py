"""Why a thread stands where it stands: evidence in, one diagnosis out. Pure: `wakeful.evidence` asks Temporal."""
