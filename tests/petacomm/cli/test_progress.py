"""Progress: lines without a terminal, bars on a terminal, nothing on other ranks."""

import io
import re

import pytest

from petacomm.base import console
from petacomm.base.progress import SilentProgress
from petacomm.cli.progress import BarProgress, LineProgress, format_duration, format_scaled, progress_listener


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def lines(stream):
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in stream.getvalue().splitlines()]


def test_lines_are_few_and_say_rate_and_time_left():
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock, interval=5.0)
    progress.begin("read", total=200e6, unit="samples")
    for _ in range(100):
        clock.now += 0.2
        progress.advance(2e6, "residual 1e-3")
    progress.end("all good")
    said = lines(stream)
    assert said[0] == "read: begins, 200 Msamples"
    assert said[-1] == "read: done in 20.0 s, all good"
    assert len(said) == 6
    assert said[2] == "read: 50%, 100 Msamples (10 Msamples/s), 10.0 s left, residual 1e-3"


def test_other_work_is_told_when_it_begins():
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock, interval=5.0)
    progress.begin("maps", total=4.0)
    for note in (
        "iteration 1",
        "",
        "iteration 2",
        "spectra of sky",
        "iteration 1",
        "spectra of sky",
        "files",
    ):
        clock.now += 1
        progress.advance(0.5, note)
    assert [line.rpartition(", ")[2] for line in lines(stream)[1:]] == ["spectra of sky"]
    progress.begin("maps")
    progress.advance(0, "iteration 1")
    progress.advance(0, "spectra of sky")
    assert lines(stream)[-1].endswith(", spectra of sky")


def test_lines_without_a_total():
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock, interval=0.0)
    progress.begin("plan")
    clock.now += 2
    progress.advance(3)
    progress.end()
    assert lines(stream) == ["plan: begins", "plan: 3 (1.5/s)", "plan: done in 2.0 s"]


def test_lines_carry_the_time_of_day():
    stream = io.StringIO()
    LineProgress(stream).begin("read")
    assert re.fullmatch(r"\d\d:\d\d:\d\d read: begins\n", stream.getvalue())


@pytest.mark.parametrize("kind", [LineProgress, BarProgress])
def test_warnings_are_printed_and_kept(kind):
    stream = Terminal()
    progress = kind(stream)
    progress.warn("[bold]3 pixels[/] are cut")
    assert progress.warnings == ["[bold]3 pixels[/] are cut"]
    assert "warning: [bold]3 pixels[/] are cut" in stream.getvalue()


def test_bars_draw_phases_and_stop():
    stream = Terminal()
    with progress_listener(0, stream) as progress:
        assert isinstance(progress, BarProgress)
        progress.advance(1)  # outside of any phase: nothing to draw
        progress.end()
        progress.begin("[red]solve[/]", total=10, unit="iterations")
        progress.advance(4, "residual 3e-4")
        progress.end("residual 1e-9")
        progress.begin("write")
    drawn = stream.getvalue()
    assert "[red]solve[/]" in drawn
    assert "100%" in drawn
    assert "residual 1e-9" in drawn
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h")  # the cursor is shown again


def test_other_ranks_are_silent(capsys):
    with progress_listener(1, Terminal()) as progress:
        progress.begin("read", 3)
        progress.advance(1)
        progress.warn("here")
        progress.end()
    assert type(progress) is SilentProgress
    assert progress.warnings == ["here"]
    assert capsys.readouterr() == ("", "")


def test_not_a_terminal_means_lines():
    with progress_listener(0, io.StringIO()) as progress:
        assert isinstance(progress, LineProgress)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.004, "0.00 s"), (0.42, "0.42 s"), (3.14, "3.1 s"), (125, "2 min 05 s"), (4320, "1 h 12 min"),
     (59.99, "60.0 s"), (float("inf"), "unknown"), (float("nan"), "unknown")],
)  # fmt: skip
def test_duration(seconds, said):
    assert format_duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (1234, "B", "1.23 kB"),
        (3.5e9, "", "3.5 G"),
        (2e13, "B", "20 TB"),
    ],
)
def test_scaled(value, unit, said):
    assert format_scaled(value, unit) == said


@pytest.mark.parametrize("width", [20, 40, 79, 80, 200])
def test_bars_stay_on_their_line(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Terminal()
    with progress_listener(0, stream) as progress:
        progress.begin("preconditioner of two levels", total=10, unit="iterations")
        progress.advance(4, "iteration 4, residual 3.00e-04, map error 12% of its noise")
        progress.end("residual 1e-9 after many words of which a line has no room")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", plain)
    lines_drawn = [line for line in re.split(r"[\r\n]+", drawn) if line.strip()]
    assert lines_drawn and all(len(line) <= width for line in lines_drawn)
    assert "\x1b[1A" not in stream.getvalue(), "a bar takes more than one line"
    if width >= 40:
        assert all("preconditioner of" in line and "%" in line and ":0" in line for line in lines_drawn)


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with progress_listener(0, stream) as progress:
        progress.warn("3 pixels are cut")
        progress.begin("read", total=2)
        progress.advance(1)
        progress.end()
    colours = [
        code for code in re.findall(r"\x1b\[([0-9;]*)m", stream.getvalue()) if re.search(r"3[0-8]", code)
    ]
    assert not colours


def test_a_log_beside_and_quiet(tmp_path):
    console.choose_output(quiet=True, log=tmp_path / "log")
    try:
        stream = io.StringIO()
        with progress_listener(0, stream) as progress:
            progress.begin("read", 3)
            progress.advance(1, "one")
            progress.end()
            progress.warn("here")
        assert stream.getvalue() == "warning: here\n"
        assert progress.warnings == ["here"]
        assert [re.sub(r"\d\d:\d\d:\d\d ", "", line).split(",")[0] for line in (tmp_path / "log").open()] == [
            "read: begins", "read: 33%", "read: done in 0.00 s", "warning: here\n",
        ]  # fmt: skip
    finally:
        console.choose_output()
