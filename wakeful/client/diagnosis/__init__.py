"""Why a thread is where it is: `reader` reads Temporal; the other modules are pure and name the cause."""
