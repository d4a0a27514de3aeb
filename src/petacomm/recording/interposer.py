"""The interposition library, compiled by the compiler of the MPI at hand and kept in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from petacomm.base.cache import cache_folder
from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.files import atomic_write

_SOURCE = Path(__file__).with_name("interposer.c")
_SOURCES = (_SOURCE, Path(__file__).with_name("interposer_calls.h"))
# The program brings its MPI: what the compiler would link is dropped, as nothing of it is used.
_FLAGS = ("-O2", "-fPIC", "-shared", "-Wl,--as-needed")
_SECONDS = 120  # of a compiler
_CACHE_MEND = "set XDG_CACHE_HOME to a folder that can be written, which all nodes see"


def find_compiler(launcher: str, given: str | None = None) -> Path:
    """Return the path of an MPI compiler: the given one, or that beside the launcher, or on the path.

    Parameters
    ----------
    launcher : str
        Name or path of the launcher: most MPIs have their compiler beside it.
    given : str, optional
        Name or path of the compiler.

    Raises
    ------
    ConfigError
        If there is none.
    """
    beside = [str(Path(path).with_name("mpicc")) for path in (shutil.which(launcher), sys.executable) if path]
    for name in [given] if given else [*beside[:-1], "mpicc", beside[-1]]:
        if found := shutil.which(name):
            return Path(found)
    raise ConfigError(
        f"no MPI compiler: {given or 'mpicc'} is not found",
        mend="give --mpicc PATH, of the MPI that the program is linked to",
    )


def compile_interposer(compiler: Path) -> Path:
    """Return the path of the library for the MPI of a compiler; compile it if the cache does not have it.

    The cache knows it by the sources and by what the compiler runs: other versions have other folders.

    Raises
    ------
    ConfigError
        If the path of the cache has what separates libraries for the loader.
    ResourceError
        If it cannot be compiled, or not be kept.
    """
    shown = _run([str(compiler), "-show"]).stdout
    digest = hashlib.blake2b(digest_size=12)
    stamp = compiler.resolve().stat()
    sources = [path.read_text() for path in _SOURCES]
    for part in (str(compiler), shown, str(stamp.st_mtime_ns), str(_FLAGS), *sources):
        digest.update(part.encode() + b"\0")
    cache = cache_folder().absolute()
    if any(letter.isspace() or letter == ":" for letter in str(cache)):
        what = "the loader takes no library (LD_PRELOAD) from a path with spaces or colons"
        raise ConfigError(
            what, where=str(cache), mend="set XDG_CACHE_HOME to a folder without, for all nodes"
        )
    library = cache / "recording" / digest.hexdigest() / "libpetacomm_record.so"
    if library.exists():
        return library
    with atomic_write(library, _CACHE_MEND) as temporary:
        done = _run([str(compiler), *_FLAGS, str(_SOURCE), "-o", str(temporary), "-ldl"])
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            said = lines[0] if lines else f"exit code {done.returncode}"
            raise ResourceError(
                f"cannot compile the library that counts: {said[:300]}",
                where=str(compiler),
                mend="it needs a working C compiler and the headers of MPI; or give another --mpicc",
            )
        temporary.chmod(0o755)
    return library


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        what = error.strerror if isinstance(error, OSError) else f"no end within {_SECONDS} s"
        raise ResourceError(f"cannot be run: {what}", where=words[0], mend="give another --mpicc") from None
