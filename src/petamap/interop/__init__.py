"""Maps of the data that other packages hold in memory, given back as theirs, where these packages are.

Must not import: petamap.cli.
"""
