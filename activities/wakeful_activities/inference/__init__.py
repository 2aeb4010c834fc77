"""The `infer` activity: from the references in its input to a complete answer, over as many attempts as it takes."""
