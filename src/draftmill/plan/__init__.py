"""A server planned before it is launched: what the machine, the model and the run's own data say, put together."""
