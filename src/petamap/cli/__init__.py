"""The command ``petamap``: one module per group of commands.

Must not import: nothing stands above it; nothing may import it.
"""
