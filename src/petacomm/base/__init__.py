"""Errors, options, records, units, timers, exact sums, threads, and file and cache access.

Must not import: any other room of petacomm.
"""
