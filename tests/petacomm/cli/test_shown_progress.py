"""Progress of calls in Python: bars where somebody looks, a listener of one's own, or nothing."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import petamap
from petacomm.base.errors import ConfigError
from petacomm.base.progress import SilentProgress
from petacomm.cli.progress import BarProgress
from petacomm.cli.shown_progress import NotebookProgress, shown_progress


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


class Notebook(io.StringIO):
    """Output of a notebook's cell."""

    __module__ = "ipykernel.iostream"


def listener(progress, rank=0):
    with shown_progress(progress, rank) as shown:
        return type(shown)


@pytest.mark.parametrize("stream, kind", [(Screen(), BarProgress), (io.StringIO(), SilentProgress)])
def test_bars_are_for_terminals(monkeypatch, stream, kind):
    monkeypatch.setattr(sys, "stdout", stream)
    assert listener(True) is kind
    assert listener(False) is listener(True, rank=1) is SilentProgress


@pytest.mark.parametrize("errors, kind", [(Screen(), BarProgress), (io.StringIO(), SilentProgress)])
def test_ranks_whose_launcher_gives_them_a_terminal_draw_no_bars_into_files(monkeypatch, errors, kind):
    monkeypatch.setenv("PMIX_RANK", "0")
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setattr(sys, "stderr", errors)
    assert listener(True) is kind


@pytest.mark.parametrize("widgets, kind", [(object(), BarProgress), (None, NotebookProgress)])
def test_notebooks_have_bars_or_lines(monkeypatch, widgets, kind):
    monkeypatch.setattr(sys, "stdout", Notebook())
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    monkeypatch.setattr("petacomm.cli.shown_progress.find_spec", lambda name: widgets)
    assert listener(True) is kind


def test_lines_of_notebooks_change_in_place(monkeypatch):
    shown = []

    class Line:
        def __init__(self, content):
            shown.append([content["text/plain"]])
            self.texts = shown[-1]

        def update(self, content, raw):
            self.texts.append(content["text/plain"])

    def display(content, raw, display_id):
        assert raw and display_id
        return Line(content)

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    lines = NotebookProgress()
    for phase in "pointing", "data":
        lines.begin(phase, 3.0, "samples")
        lines.advance(1.0)
        lines.warn(f"of {phase}")
        lines.end("all")
    assert lines.warnings == ["of pointing", "of data"]
    assert [len(texts) for texts in shown] == [2, 1, 2, 1]
    assert "pointing: done" in shown[0][-1] and "warning: of pointing" in shown[1][0]


@pytest.mark.parametrize("call", [petamap.run, petamap.run_montecarlo])
def test_what_does_not_listen_is_told(call):
    config = petamap.parse_config('[map]\nn_side = 1\n[[source]]\nkind = "satellite"\nduration = "1 h"\n')
    with pytest.raises(ConfigError, match="does not listen"):
        call(config, out="nowhere", progress="bars")


class Listener(SilentProgress):
    """Listener that counts the phases."""

    phases = 0

    def begin(self, phase, total=None, unit=""):
        self.phases += 1


def test_a_listener_hears_of_phases_and_warnings():
    heard, t = Listener(), np.arange(2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *given, **named: pytest.fail("said twice"))
        petamap.make_map(
            np.zeros(2000), 1.0 + 1e-4 * t, 1e-3 * t, 0.1 * t, n_side=8, sample_rate=10.0, progress=heard,
            noise=petamap.OneOverF(1.0),
        )  # fmt: skip
    assert heard.phases > 3 and any("pixel" in text for text in heard.warnings)
