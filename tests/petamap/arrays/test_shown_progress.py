"""Progress of make_map: bars where somebody looks, a listener of one's own, or nothing."""

import io
import sys

import numpy as np
import pytest

import petamap
from petacomm.base.progress import SilentProgress
from petacomm.cli.progress import BarProgress
from petamap.arrays.shown_progress import shown_progress


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


@pytest.mark.parametrize("widgets, kind", [(object(), BarProgress), (None, SilentProgress)])
def test_notebooks_have_bars_with_ipywidgets(monkeypatch, widgets, kind):
    monkeypatch.setattr(sys, "stdout", Notebook())
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    monkeypatch.setattr("petamap.arrays.shown_progress.find_spec", lambda name: widgets)
    assert listener(True) is kind


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
