"""What a compiler is given to build programs that use ``petacomm.h``."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

_FOLDER = Path(__file__).parent


def cmake_folder() -> Path:
    """Return the folder of petacommConfig.cmake."""
    return _FOLDER


def fortran_module() -> Path:
    """Return the path of the source of the Fortran module ``petacomm``."""
    return _FOLDER / "petacomm.f90"


def compile_words() -> list[str]:
    """Return the words after ``mpicc program.c``: the source of the library, headers, and this Python.

    Returns
    -------
    list of str
        Without spaces or quotes, unless there are some in the paths of the installation.
    """
    # a name in hexadecimal digits comes through shells and macros as it is
    interpreter = "x" + sys.executable.encode().hex()
    return [
        str(_FOLDER / "petacomm.c"),
        f"-DPETACOMM_PYTHON_HEX={interpreter}",
        f"-I{_FOLDER}",
        f"-I{sysconfig.get_path('include')}",
        *_link_words(),
    ]


def _link_words() -> list[str]:
    version = sysconfig.get_config_var("LDVERSION")
    rest = f"{sysconfig.get_config_var('LIBS')} {sysconfig.get_config_var('SYSLIBS')}".split()
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        folder = sysconfig.get_config_var("LIBDIR")
        return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{version}", *rest]
    # a static interpreter: extension modules find its functions in the program
    exported = (sysconfig.get_config_var("LINKFORSHARED") or "").split()
    return [f"-L{sysconfig.get_config_var('LIBPL')}", f"-lpython{version}", *rest, *exported]
