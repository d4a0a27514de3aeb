"""A source of another package, made known by its entry point."""

import os
import sys
from pathlib import Path

from commands import run_command

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = """
[map]
n_side = 64
[[source]]
kind = "satellite"
sample_rate = "10 Hz"
duration = "10 min"
[[source]]
kind = "heater"
amplitude = "{amplitude}"
"""


def _check(tmp_path, amplitude):
    package = tmp_path / "site" / "own_source-1.0.dist-info"
    package.mkdir(parents=True, exist_ok=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own-source\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[petamap.sources]\nheater = own_source:HeaterSource\n")
    (tmp_path / "run.toml").write_text(RUN.format(amplitude=amplitude))
    path = os.pathsep.join([str(package.parent), str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "petamap.cli.main", "check", "run.toml"]
    return run_command(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})


def test_plug_in_is_found_with_its_units(tmp_path):
    done = _check(tmp_path, "1 mK")
    assert done.returncode == 0, done.stderr
    assert "heater" in done.stdout


def test_its_options_are_checked(tmp_path):
    done = _check(tmp_path, "1 arcmin")
    assert done.returncode == 2
    assert "run.toml:10" in done.stderr
