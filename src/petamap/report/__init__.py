"""HTML pages: the report of a run, and the figures of Sudarsan et al. 2011.

Must not import: petamap.cli.
"""
