"""Tests of ``petamap doctor``."""

import subprocess
import sys
import time
from importlib.metadata import requires

import pytest

from petacomm.base import instruction_set
from petamap.cli import doctor
from petamap.cli.main import main


def test_this_installation(capsys):
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for name in ("python", "numpy", "ducc0", "kernels", "processor", "threads", "memory", "disk", "mpi"):
        assert f" {name}" in said
    assert "fail" not in said


def test_packages():
    assert doctor.check_package("numpy", (1, 26), "arrays").status == "ok"
    assert doctor.check_package("numpy", (99,), "arrays").status == "fail"
    missing = doctor.check_package("no-such-package", (1,), "nothing")
    assert (missing.status, missing.mend) == ("fail", "pip install 'no-such-package>=1'")
    assert doctor.check_optional_package("no-such-package", "nothing").status == "ok"


def test_a_package_that_is_too_new(monkeypatch):
    (asked,) = (one for one in requires("petamap") if one.startswith("ducc0"))
    below = ".".join(map(str, doctor._BELOW["ducc0"]))
    assert f"<{below}" in asked
    monkeypatch.setattr(doctor, "_version", lambda name: f"{below}.1")
    found = doctor.check_package("ducc0", (0, 34), "transforms")
    assert (found.status, found.mend) == ("fail", f"pip install 'ducc0>=0.34,<{below}'")
    assert "is not older than" in found.text


def answer(returncode=0, stdout="", stderr=""):
    return lambda *arguments, **options: subprocess.CompletedProcess([], returncode, stdout, stderr)


@pytest.mark.parametrize(
    ("done", "status", "words"),
    [
        (
            answer(-4, "petamap.sky._sky\n"),
            "fail",
            "petamap.sky._sky needs instructions that this processor lacks",
        ),
        (
            answer(1, "petamap.sky._sky\n", "x\nImportError: gone\n"),
            "fail",
            "petamap.sky._sky: ImportError: gone",
        ),
        (answer(0, "petacomm.base._base\npetamap.sky._sky\n"), "ok", "2 compiled modules load"),
    ],
)
def test_kernels(monkeypatch, done, status, words):
    monkeypatch.setattr(doctor, "_python", done)
    check = doctor.check_kernels()
    assert (check.status, check.text.startswith(words)) == (status, True)
    assert bool(check.mend) == (status != "ok")


def test_kernels_of_this_installation():
    check = doctor.check_kernels()
    assert check.status == "ok"
    assert int(check.text.split()[0]) >= 2


@pytest.mark.parametrize(
    ("built", "has", "asked", "kernels", "processor"),
    [
        ("v2 v3 v4", "v2 v3 v4", "", "ok", "ok"),
        ("v2 v3 v4", "v2 v3 v4", "v3", "ok", "warn"),
        ("v2", "v2 v3", "", "ok", "warn"),
        ("v3 v4", "v2", "", "fail", "ok"),
        ("v2 v3 v4", "v2 v3", "v4", "fail", "ok"),
    ],
)
def test_instruction_sets(monkeypatch, built, has, asked, kernels, processor):
    instruction_set.kernel_set.cache_clear()
    monkeypatch.setattr(instruction_set, "built_sets", lambda: built.split())
    monkeypatch.setattr(instruction_set, "processor_sets", lambda: ["baseline", *has.split()])
    monkeypatch.setattr(doctor, "_python", answer(0, "petamap.sky._sky\n"))
    monkeypatch.setenv("PETAMAP_ARCH", asked)
    try:
        assert (doctor.check_kernels().status, doctor.check_processor().status) == (kernels, processor)
        assert bool(doctor.check_kernels().mend) == (kernels == "fail")
    finally:
        instruction_set.kernel_set.cache_clear()


def test_too_many_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "10000")
    check = doctor.check_threads()
    assert check.status == "warn"
    assert check.mend.startswith("export OMP_NUM_THREADS=")


def test_processes_that_outlive_a_launcher_do_not_keep_us_waiting():
    begin = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        doctor._python("", ["sh", "-c", "sleep 20 & sleep 20"], timeout=0.1)
    assert time.monotonic() - begin < 10


def hanging(*arguments, **options):
    raise subprocess.TimeoutExpired("mpiexec", 60)


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (answer(0, ""), "two runs of one process"),
        (answer(1, "", "no slots\n"), "no slots"),
        (hanging, "did not meet"),
    ],
)
def test_launcher_of_another_mpi(monkeypatch, done, words):
    monkeypatch.setattr(doctor, "launcher_path", lambda: "/bin/mpiexec")
    monkeypatch.setattr(doctor, "_python", done)
    check = doctor.check_mpi()
    assert check.status == "fail"
    assert words in check.text
    assert "same MPI library" in check.mend


def test_no_launcher(monkeypatch):
    monkeypatch.setattr(doctor, "launcher_path", lambda: None)
    assert doctor.check_mpi().status == "warn"
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    assert doctor.check_mpi().status == "ok"


def test_failure_sets_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(
        doctor, "run_checks", lambda: iter([doctor.DoctorCheck("x", "fail", "broken", "mend it")])
    )
    assert main(["doctor"]) == 5
    assert "-> mend it" in capsys.readouterr().out


def test_last_line_of_empty_text():
    assert doctor._last_line("") == "no message"
    assert sys.executable in doctor.check_python().text
