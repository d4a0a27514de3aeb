"""Glitches found in runs: the map is that of data without any, and the same on any number of ranks."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from small_systems import dense, make_system, numbered, recorded, solve

from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.cli.closing_table import closing_table
from petamap.data.config import GlitchOptions, open_sources, parse_config
from petamap.data.observation import read_flags
from petamap.data.run_summary import Summary
from petamap.glitches.found import StepOffsets
from petamap.glitches.search import GlitchSearch, glitch_warnings
from petamap.mapmaking.run import run
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.time_layout import TimeLayout
from petamap.simulation.glitches import CosmicRays, LevelSteps
from petamap.sky.map_file import read_map

SCAN = """
[run]
name = "small"
[map]
n_side = 8
[noise]
n_lag = 64
[solver]
tolerance = 1e-7
[resources]
threads = 1
[[source]]
kind = "satellite"
n_det = 2
n_observations = 2
spacing = "4 deg"
sample_rate = "5 Hz"
duration = "6 h"
opening = "50 deg"
precession_period = "96 min"
precession_angle = "45 deg"
[[source]]
kind = "sky-spectra"
n_side = 32
fwhm = "2 deg"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "50 mHz"
fmin = "5 mHz"
"""
GLITCHES = """
[[source]]
kind = "cosmic-rays"
every = "1 min"
amplitude = "5 mK"
[[source]]
kind = "steps"
every = "40 min"
height = "1 mK"
"""
FIND = '[glitches]\nfind = "glitches-and-steps"\n'


def mapped(out, text, find="", comm=None):
    summary = run(parse_config(find + text), out=out, comm=comm)
    return read_map(Path(out) / "small_map.fits").values, summary


def glitched(comm):
    """Make the map on the ranks of a job."""
    mapped(Path(f"ranks-{comm.size}"), SCAN + GLITCHES, FIND, comm)


def without_glitches(config):
    """Return observations with all that is found in them, and the signals that they have without it."""
    given = open_sources(config)
    found, _ = GlitchSearch(config.glitches).apply(given, SerialCommunicator(), SilentProgress())
    return [
        dataclasses.replace(
            one,
            signals=tuple(part for part in one.signals if not isinstance(part, CosmicRays | LevelSteps)),
        )
        for one in found
    ]


def test_the_map_is_that_of_data_without_glitches(tmp_path):
    """Of glitches less than 2% of the noise is left; what is flagged and solved for costs noise alone."""
    clean, alone = mapped(tmp_path / "clean", SCAN)
    raw, _ = mapped(tmp_path / "raw", SCAN + GLITCHES)
    kept, summary = mapped(tmp_path / "kept", SCAN + GLITCHES, FIND)
    ideal = without_glitches(parse_config(FIND + SCAN + GLITCHES))
    sourceless = dataclasses.replace(parse_config(SCAN), sources=())
    run(sourceless, out=tmp_path / "ideal", observations=ideal)
    same = read_map(tmp_path / "ideal" / "small_map.fits").values
    noise = np.sqrt(read_map(tmp_path / "clean" / "small_covariance.fits").values[0])
    left, lost, before = (
        np.nanstd((a - b)[0] / noise) for a, b in ((kept, same), (kept, clean), (raw, clean))
    )
    assert left < 0.02 and lost < 0.3 and before > 30
    assert 680 < sum(one.glitches for one in summary.glitches) < 740
    assert sum(one.steps for one in summary.glitches) == 25
    assert not any("the level of the signal steps" in text for text in summary.warnings)
    assert Summary.read(tmp_path / "kept").glitches == summary.glitches
    assert "found in data" in closing_table(summary, None) and len(summary.glitches) == 2
    assert alone.glitches is None and "found in data" not in closing_table(alone, None)


def test_without_glitches_nothing_changes(tmp_path):
    clean, _ = mapped(tmp_path / "clean", SCAN)
    again, summary = mapped(tmp_path / "again", SCAN, FIND)
    assert np.array_equal(again, clean, equal_nan=True) and summary.glitches == ()


@pytest.mark.parametrize("n_ranks", cases(3, long=(2,)))
def test_any_number_of_ranks_gives_the_same_bits(n_ranks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here, summary = mapped(tmp_path / "one", SCAN + GLITCHES, FIND)
    run_ranks(glitched, n_ranks)
    there = read_map(tmp_path / f"ranks-{n_ranks}" / "small_map.fits").values
    assert np.array_equal(here, there, equal_nan=True)
    assert Summary.read(tmp_path / f"ranks-{n_ranks}").glitches == summary.glitches


def stepping(rng):
    one = recorded(rng, 3, 300, 6, 5, ((0, 140), (150, 300)), flagged=0.1, outside=0.05)
    return dataclasses.replace(
        one, templates=(StepOffsets(0, np.array([40, 90, 200])), StepOffsets(2, np.array([70])))
    )


@pytest.mark.parametrize("kind", ["two-level", "block-diagonal"])
def test_steps_are_solved_for_as_by_dense_algebra(kind):
    one = stepping(np.random.default_rng(4))
    parts = dense([one], numbered(6), "IQU", 5)
    terms = StreamTerms([one], TimeLayout([one], 5))
    columns, begin = [], 0
    for stream, where in enumerate(terms.layout.streams):
        n = where.stop - where.start
        for term in terms.of(stream):
            for function in term.matrix(0, n).toarray().T:
                columns.append(np.zeros(len(parts.data)))
                columns[-1][begin : begin + n] = function
        begin += n
    assert len(columns) == 4
    design = np.hstack([parts.response, np.array(columns).T])[parts.good]
    weights = np.linalg.inv(np.linalg.inv(parts.inverse)[np.ix_(parts.good, parts.good)])
    found = np.linalg.lstsq(design.T @ weights @ design, design.T @ weights @ parts.data[parts.good])[0]
    solution = solve(make_system([one], numbered(6), preconditioner=kind))
    assert solution.converged
    np.testing.assert_allclose(solution.map.pixels, found[:18].reshape(6, 3), rtol=0, atol=1e-6)


def test_pieces_do_not_matter_and_margins_are_flagged(monkeypatch):
    """A glitch and a step near the ends of pieces are found once."""
    rng = np.random.default_rng(7)
    one = recorded(rng, 1, 4000, 6, 5, ((0, 4000),))
    data = rng.standard_normal((1, 4000))
    data[0, 1999] += 100.0
    data[0, 3000:] += 50.0
    (first, *_) = one.signals
    one = dataclasses.replace(one, signals=(type(first)(data),), flags=(), sample_rate=20.0)
    options = GlitchOptions(find="glitches-and-steps")
    for piece in 1 << 16, 1000, 500:
        monkeypatch.setattr("petamap.glitches.search._PIECE", piece)
        (found,), (counts,) = GlitchSearch(options).apply([one], SerialCommunicator(), SilentProgress())
        assert (counts.glitches, counts.steps) == (1, 1)
        flags = np.flatnonzero(read_flags(found, 0, 0, 4000))
        assert {1998, 1999, 2003, 2998, 3000, 3007} <= set(flags.tolist()) and len(flags) < 40
        assert counts.samples == len(flags)
        assert 3000 <= found.templates[0].steps[0] <= 3007
    assert glitch_warnings([found], (counts,)) == []
    assert "of detector" in glitch_warnings([found], (dataclasses.replace(counts, samples=900),))[0]


PLATE = (
    SCAN.replace('opening = "50 deg"', 'opening = "50 deg"\nhwp_frequency = "0.7 Hz"')
    + """
[[source]]
kind = "plate-synchronous"
last = 3
drift = "20 min"
simulate = "0.3 K"
"""
)


def found_of(text):
    observations = open_sources(parse_config(text, Path("small.toml")))
    options = GlitchOptions(find="glitches")
    return GlitchSearch(options).apply(observations, SerialCommunicator(), SilentProgress())


def test_a_rotating_plate_hides_no_glitches():
    """Its signal is a thousand times the noise, and ten times the glitches."""
    assert not found_of(PLATE)[1]
    (observation, _), _ = found_of(PLATE + GLITCHES)
    (rays,) = (signal for signal in observation.signals if isinstance(signal, CosmicRays))
    for detector in range(2):
        events, _ = rays.events.within(detector, 50, observation.n_samp - 50)
        flags = read_flags(observation, detector, 0, observation.n_samp)
        assert len(events) > 100
        assert np.mean(flags[events]) > 0.99
    unsolved = PLATE.replace("last = 3", "last = 3\nsolve = false")
    assert sum(one.glitches for one in found_of(unsolved + GLITCHES)[1]) < 0.2 * len(events)


def test_what_is_found_under_a_plate_does_not_depend_on_ranks():
    run_ranks(plate_on_ranks, 3)


def plate_on_ranks(comm):
    observations = open_sources(parse_config(PLATE + GLITCHES, Path("small.toml")))
    search = GlitchSearch(GlitchOptions(find="glitches"))
    found = search.apply(observations, comm, SilentProgress())[1]
    if comm.rank == 0:
        assert found == found_of(PLATE + GLITCHES)[1]


class FlaggedStretch:
    """Flags of samples [0, end) of the first detector, and of all of the second."""

    def __init__(self, end):
        self.end = end

    def or_flags(self, detector, start, stop, out):
        out[: None if detector else max(0, self.end - start)] = 1


def test_stretches_without_a_good_sample_under_a_plate():
    """Cells of drift in which nothing is good say nothing of their amplitudes, and stop no search."""
    observation, *_ = open_sources(parse_config(PLATE + GLITCHES, Path("small.toml")))
    n_flagged = int(90 * 60 * observation.sample_rate)  # cells last 20 minutes
    flagged = dataclasses.replace(observation, flags=(FlaggedStretch(n_flagged),))
    search = GlitchSearch(GlitchOptions(find="glitches"))
    (_,), (first, *_) = search.apply([flagged], SerialCommunicator(), SilentProgress())
    (_,), (unflagged, _) = search.apply([observation], SerialCommunicator(), SilentProgress())
    assert 0.4 < first.glitches / unflagged.glitches < 0.6
