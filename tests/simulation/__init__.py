"""A simulated Temporal: the real workflows and activities, one thread, one seed, and every order of events.

`core` is a model of the SDK's core: it turns a history into activations of the real workflow classes, and compares
their commands with the events. `server` is a model of the Temporal server: histories, workflow tasks, timers,
activities, children and signals. `service` puts Temporal's own Python client on top of it, so that the real activities
read and write simulated histories. `schedule` decides from a seed what happens next, and injects faults between any two
events. `checks` says what must hold. `docs/testing.md` explains how to add a fault, a feature or an invariant.
"""
