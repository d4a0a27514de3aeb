"""Algorithms of the collectives: each module returns the schedules of one family."""
