"""Activities: everything that touches the world. They parse, call and translate; they decide nothing."""
