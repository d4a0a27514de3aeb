"""What a compiler is given to build programs that use ``petacomm.h``."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from petacomm.base.errors import ConfigError

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
        Without spaces, unless there are some in the paths of the installation.

    Raises
    ------
    ConfigError
        If this Python has no shared library.
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
    folder = _library_folder(f"libpython{version}")
    rest = f"{sysconfig.get_config_var('LIBS')} {sysconfig.get_config_var('SYSLIBS')}".split()
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{version}", *rest]


def _library_folder(name: str) -> Path:
    # some say that they have none, and do
    for folder in [sysconfig.get_config_var("LIBDIR"), str(Path(sys.base_prefix) / "lib")]:
        if folder and any((Path(folder) / f"{name}{ending}").exists() for ending in (".so", ".dylib")):
            return Path(folder)
    raise ConfigError(
        f"this Python has no {name}.so, which programs are linked to",
        where=sys.executable,
        mend="take one of your distribution with its headers, of conda, or one built with --enable-shared",
    )
