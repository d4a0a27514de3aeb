"""Run configurations, observations, and the sources they are read from."""
