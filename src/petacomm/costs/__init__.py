"""Communication loads of reductions on any number of ranks, computed without running them.

Must not import: reduction, mapping or higher rooms.
"""
