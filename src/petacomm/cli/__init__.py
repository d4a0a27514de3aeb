"""The command ``petacomm``, and the parser and progress bars that other commands use.

Must not import: petamap.
"""
