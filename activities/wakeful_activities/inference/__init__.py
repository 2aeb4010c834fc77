"""A model call from the references it is given to the whole answer, over as many attempts as it takes."""
