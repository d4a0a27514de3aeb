"""Maps of arrays in memory: observations made of a user's arrays, mapped in one call.

Must not import: petamap.report, petamap.cli.
"""
