"""Tables and figures of published papers, reproduced by the public parts of the rooms below.

Must not import: report, cli.
"""
