"""Programs in C, C++ and Fortran that use petacomm.h, built as their users do."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from cases import cases
from commands import run_command
from mpi import MPIEXEC
from recorded import COMPILER, petacomm, require_compiler

from petacomm.base.errors import ConfigError
from petacomm.capi import cmake_folder, compile_words, fortran_module
from petacomm.cli.main import main

ROOT = Path(__file__).parents[3]
EXAMPLES, SUPPORT = ROOT / "examples", ROOT / "tests" / "support"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror"]


def built(folder, source, *words):
    require_compiler()
    program = folder / source.stem
    run_command([COMPILER, *WARNINGS, *words, source, *compile_words(), "-o", program], check=True)
    return program


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def example(folder):
    return built(folder, EXAMPLES / "shared_keys.c")


@pytest.fixture(scope="module")
def every_function(folder):
    return built(folder, SUPPORT / "capi_program.c")


def run(program, n_ranks, **options):
    return run_command([MPIEXEC, "-n", n_ranks, program], **options)


@pytest.mark.parametrize("n_ranks", [1, *cases(3, long=(2, 5))])
def test_the_example(example, n_ranks):
    done = run(example, n_ranks, check=True)
    assert done.stdout == f"{1000 + 500 * (n_ranks - 1)} keys in all\n" and not done.stderr


@pytest.mark.parametrize("n_ranks", [1, *cases(3, long=(2, 5))])
def test_every_function(every_function, n_ranks):
    done = run(every_function, n_ranks, check=True)
    *told, end = done.stdout.splitlines()
    assert end == "all is right" and len(told) == 5 and not done.stderr
    assert "keys must be sorted" in told[0]
    assert "an array of -1" in told[1]
    assert "no reduction 'best'" in told[2]
    assert told[3].startswith(f"rank {n_ranks - 1}: no rank owns ghost 1000 (give it")
    twice = "rank 0: key 0 is twice" if n_ranks == 1 else "key 77 is owned by ranks 0 and 1 (let one"
    assert told[4].startswith(twice)


def test_words_with_spaces_are_quoted(monkeypatch, capsys):
    words = ["/my env/petacomm.c", "-I/my env", "-lm"]
    monkeypatch.setattr("petacomm.capi.compile_words", lambda: words)
    assert main(["config"]) == 0
    said = capsys.readouterr()
    assert shlex.split(said.out) == words and 'eval "mpicc program.c $(petacomm config)' in said.err
    words[:2] = ["/env/petacomm.c", "-I/env"]
    assert main(["config"]) == 0
    said = capsys.readouterr()
    assert said.out == "/env/petacomm.c -I/env -lm\n" and not said.err


def test_an_interpreter_that_is_not_there(example):
    environment = {**os.environ, "PETACOMM_PYTHON": "/nowhere/python"}
    done = run(example, 1, env=environment)
    assert done.returncode != 0 and done.stderr


def test_without_the_words_of_config_the_compiler_says_what_lacks():
    require_compiler()
    done = run_command(
        [COMPILER, "-c", cmake_folder() / "petacomm.c", f"-I{compile_words()[3][2:]}", "-o", os.devnull]
    )
    assert done.returncode != 0 and "petacomm config" in done.stderr


def test_cplusplus(folder):
    require_compiler()
    if shutil.which("c++") is None:
        pytest.skip("no compiler of C++")
    shutil.copy(EXAMPLES / "shared_keys.c", folder / "shared_keys.cpp")
    shown = shlex.split(run_command([COMPILER, "-show"], check=True).stdout)[1:]
    words = [folder / "shared_keys.cpp", *compile_words(), *shown, "-o", folder / "in_cpp"]
    run_command(["c++", *words], check=True)
    assert run(folder / "in_cpp", 2, check=True).stdout == "1500 keys in all\n"


def require_cmake():
    """Return CMake's program, be it of another environment whose packages this takes, or skip the test."""
    cmake = pytest.importorskip("cmake", reason="no cmake for this Python: pip install cmake")
    return Path(cmake.CMAKE_BIN_DIR) / "cmake"


def fortran_folder(where):
    """Return a new folder and its Fortran compiler: the MPICH of the system's.

    The library of that MPICH is there under the name that mpi4py of PyPI asks for.
    """
    # The plain names are those of Open MPI where Debian has both.
    mpifort = shutil.which("mpifort.mpich") or shutil.which("mpifort")
    library = next(Path("/usr/lib").glob("*/libmpich.so.12"), None)
    if mpifort is None or library is None:
        pytest.skip("no Fortran of MPICH: apt install libmpich-dev gfortran")
    where.mkdir()
    (where / "libmpi.so.12").symlink_to(library)
    return where, Path(mpifort)


def beside(mpifort, name):
    """Return another program of the MPI that a Fortran compiler is of."""
    return mpifort.with_name(mpifort.name.replace("mpifort", name))


def run_fortran(where, mpifort, program):
    """Return what a program says on two ranks."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(where)}
    job = [beside(mpifort, "mpiexec"), "-n", 2, program]
    return run_command(job, cwd=where, env=environment, check=True).stdout


def test_cmake(folder):
    require_compiler()
    cmake, project = require_cmake(), folder / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(sums C)\nfind_package(petacomm REQUIRED)\n"
        f"add_executable(sums {EXAMPLES / 'shared_keys.c'})\ntarget_link_libraries(sums petacomm::petacomm)\n"
    )
    given = [f"-Dpetacomm_DIR={cmake_folder()}", f"-DMPI_C_COMPILER={COMPILER}"]
    configure = [cmake, "-S", project, "-B", project / "build", *given]
    without = run_command([*configure, "-DPETACOMM_PYTHON=/nowhere"])
    assert without.returncode != 0 and "set PETACOMM_PYTHON" in without.stderr.replace("\n", " ")
    run_command([*configure, f"-DPETACOMM_PYTHON={sys.executable}"], check=True)
    run_command([cmake, "--build", project / "build"], check=True)
    assert run(project / "build" / "sums", 2, check=True).stdout == "1500 keys in all\n"


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("shared_keys", "1500 keys in all\n"),
        ("stencil", "cell 19 has 0.1317\n"),
        ("fortran_halves", "all is right\n"),
    ],
)
def test_fortran(folder, example, expected):
    where, mpifort = fortran_folder(folder / f"fortran_{example}")
    run_command([mpifort, "-c", fortran_module()], cwd=where, check=True)
    source = (SUPPORT if example == "fortran_halves" else EXAMPLES) / f"{example}.f90"
    words = [source, "petacomm.o", *compile_words(), "-o", "program"]
    run_command([mpifort, *words], cwd=where, check=True)
    assert run_fortran(where, mpifort, "./program") == expected


def test_fortran_with_cmake(folder):
    where, mpifort = fortran_folder(folder / "fortran_project")
    (where / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(sums Fortran)\n"
        "find_package(petacomm REQUIRED COMPONENTS Fortran)\n"
        f"add_executable(sums {EXAMPLES / 'shared_keys.f90'})\n"
        "target_link_libraries(sums petacomm::fortran)\n"
    )
    given = [f"-Dpetacomm_DIR={cmake_folder()}", f"-DPETACOMM_PYTHON={sys.executable}"]
    given += [f"-DMPI_C_COMPILER={beside(mpifort, 'mpicc')}", f"-DMPI_Fortran_COMPILER={mpifort}"]
    run_command([require_cmake(), "-S", where, "-B", where / "build", *given], check=True)
    run_command([require_cmake(), "--build", where / "build"], check=True)
    assert run_fortran(where, mpifort, "build/sums") == "1500 keys in all\n"


@pytest.mark.parametrize(
    ("option", "expected"), [("--cmake", cmake_folder()), ("--fortran", fortran_module())]
)
def test_config_tells_where_files_are(option, expected):
    assert petacomm("config", option, check=True).stdout == f"{expected}\n"


def test_config_tells_words_of_the_compiler():
    done = petacomm("config", check=True)
    assert done.stdout.split() == compile_words()
    assert subprocess.list2cmdline(compile_words()) == done.stdout.strip()  # nothing that a shell would split


def test_a_python_without_a_library(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    with pytest.raises(ConfigError, match=r"no libpython.*so, which programs") as caught:
        compile_words()
    assert "--enable-shared" in caught.value.mend
