"""The command ``petacomm``, and the parser and progress bars that other commands use.

Must not import: petamap.
"""

import sys
from importlib import import_module


def start_command(module: str) -> int:
    """Run ``main`` of a module as the command of this process, and return its exit code.

    Most of the first half second is imports: an interrupt that comes then is told in a line, too.
    """
    try:
        code: int = import_module(module).main()
    except KeyboardInterrupt:
        sys.stderr.write(f"{module.partition('.')[0]}: interrupted\n")
        return 130
    return code


def start_petacomm() -> int:
    """Run ``petacomm``."""
    return start_command("petacomm.cli.main")
