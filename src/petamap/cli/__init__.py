"""The command ``petamap``: one module per group of commands.

Must not import: nothing stands above it; nothing may import it.
"""

from petacomm.cli import start_command


def start_petamap() -> int:
    """Run ``petamap``."""
    return start_command("petamap.cli.main")
