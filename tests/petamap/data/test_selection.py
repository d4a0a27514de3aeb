"""Tests of the choice of detectors and observations: the same in all sources, and the same numbers."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_observations import flags_of, observation, signal_of

import petamap
from petacomm.base.errors import ConfigError
from petamap.data.config import open_sources, parse_config
from petamap.data.config.source_kinds import all_source_kinds
from petamap.data.formats.madmap1_write import write_madmap1
from petamap.data.formats.toast_write import write_toast
from petamap.data.formats.volume_write import write_volume
from petamap.data.observation import DetectorNoise
from petamap.data.selection import first_samples, select_observations
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags, OneOverF
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.healpix import Healpix

FILES = ("volume", "toast", "madmap1")
N_DET = 4


def given_observations(kind):
    """Return two observations that a format can hold."""
    model = InverseLags(np.array([4.0, -1.0])) if kind == "madmap1" else OneOverF(0.05, 0.1, 1e-5, -1.5)
    made = []
    for number, name in enumerate(("night-1", "night-2")):
        one = observation(name, n_samp=120, n_det=N_DET, plate=None)
        one = dataclasses.replace(one, uid=number, noise=DetectorNoise((model,) * N_DET), unit="K_CMB")
        flags = () if kind == "madmap1" else one.flags
        made.append(dataclasses.replace(one, flags=flags, intervals=((0, 120),)))
    return made


def write(kind, folder: Path) -> str:
    """Write the observations, and return the options that name their files."""
    made = given_observations(kind)
    if kind == "volume":
        write_volume(folder / "a.h5", made)
        return 'path = "a.h5"'
    if kind == "toast":
        (folder / "volume").mkdir()
        write_toast(folder / "volume", made)
        return 'path = "volume"'
    write_madmap1(folder / "tod", folder / "filters", made, Healpix(16, nest=True))
    return 'tod = "tod"\nfilters = "filters"\nn_detectors = 4\nhealpix = "nested"\nname = "night"'


def opened(kind, folder: Path, options: str):
    text = f'[map]\nn_side = 16\n[[source]]\nkind = "{kind}"\n{options}\n'
    return open_sources(parse_config(text, folder / "run.toml"))


def numbers_of(one, detector):
    """Return all that is told of a detector: signal, flags, pixels, angles and noise."""
    pixels, angles = np.empty(one.n_samp, np.int32), np.empty(one.n_samp, np.uint32)
    one.pointing.expand(Healpix(16, nest=True), detector, 0, one.n_samp, pixels, angles)
    noise = one.noise.noise_model(detector, 0)
    return (
        signal_of(one, detector),
        flags_of(one, detector),
        pixels,
        angles,
        np.hstack(dataclasses.astuple(noise)),
    )


@pytest.mark.parametrize("kind", FILES)
def test_chosen_detectors_have_the_numbers_that_they_have_among_all(tmp_path, kind):
    files = write(kind, tmp_path)
    everything = opened(kind, tmp_path, files)
    (whole,) = everything[1:]
    chosen = [whole.detectors[3], whole.detectors[1]]
    words = f'observations = ["*{whole.name[-1]}"]\ndetectors = ["{chosen[0]}", "?*{chosen[1][1:]}"]'
    (one,) = opened(kind, tmp_path, f"{files}\n{words}")
    assert one.name == whole.name and one.detectors == (whole.detectors[1], whole.detectors[3])
    assert (one.pointing.n_det, one.pointing.n_samp, one.uid) == (2, one.n_samp, whole.uid)
    for detector, number in enumerate((1, 3)):
        for mine, other in zip(numbers_of(one, detector), numbers_of(whole, number), strict=True):
            assert np.array_equal(mine, other)


@pytest.mark.parametrize("kind", [*FILES, "satellite", "cuts"])
@pytest.mark.parametrize(("key", "line"), [("detectors", 5), ("observations", 6)])
def test_an_unknown_name_is_told_with_its_line(tmp_path, kind, key, line):
    before = '[[source]]\nkind = "satellite"\nsample_rate = "1 Hz"\n' if kind == "cuts" else ""
    files = write(kind, tmp_path) if kind in FILES else 'sample_rate = "1 Hz"' * (kind == "satellite")
    options = {"detectors": '["*"]', "observations": '["*"]'} | {key: '["*", "no-such"]'}
    text = f'{before}[[source]]\nkind = "{kind}"\n' + "\n".join(f"{k} = {v}" for k, v in options.items())
    config = parse_config(f"[map]\nn_side = 16\n{text}\n{files}\n", tmp_path / "run.toml")
    with pytest.raises(ConfigError) as caught:
        open_sources(config)
    line += 3 if before else 0
    assert str(caught.value).startswith(f"{tmp_path / 'run.toml'}:{line}: no {key[:-1]} 'no-such' (")
    assert "there are: " in str(caught.value)


def test_the_command_line_chooses_too(tmp_path):
    files = write("volume", tmp_path)
    text = f'[map]\nn_side = 16\n[[source]]\nkind = "volume"\n{files}\n'
    config = parse_config(text, tmp_path / "run.toml", ["source.0.detectors=D1,D[23]"])
    assert [one.detectors for one in open_sources(config)] == [("D1", "D2", "D3")] * 2
    config = parse_config(text, tmp_path / "run.toml", ["source.0.detectors=x*"])
    with pytest.raises(ConfigError, match=r"^command line: no detector 'x\*'"):
        open_sources(config)


def test_observations_without_a_chosen_detector_are_left_out():
    first, second = observation("a"), dataclasses.replace(observation("b"), detectors=("E0", "E1", "E2"))
    chosen = select_observations([first, second], SourceContext(Path()), observations=(), detectors=("E*",))
    assert chosen == [second]


def test_pieces_of_a_simulated_scan(tmp_path):
    options = 'duration = "1 h"\nn_observations = 4\nnet = "60 uK s^0.5"\nsample_rate = "1 Hz"'
    every = opened("satellite", tmp_path, options)
    two = opened("satellite", tmp_path, f'{options}\nobservations = ["*-000[13]"]')
    assert [one.name for one in two] == ["satellite-0001", "satellite-0003"]
    assert [one.start_time for one in two] == [every[k].start_time for k in (1, 3)]


def test_every_kind_that_gives_observations_has_both_options():
    kinds = {kind.name: kind.fields for kind in all_source_kinds()}
    for name in (*FILES, "satellite", "ground", "raster", "cuts"):
        assert {"detectors", "observations"} <= set(kinds[name])
    assert "detectors" in kinds["recorded"]  # which gives one observation


@settings(deadline=None, max_examples=25)
@given(st.sets(st.integers(0, 4), min_size=1), st.booleans())
def test_any_choice_of_any_pointing(numbers, recorded):
    whole = observation(n_det=5)
    if recorded:
        rng = np.random.default_rng(1)
        pixels = rng.integers(0, 3072, (5, whole.n_samp))
        gains = rng.random((5, whole.n_samp)).astype(np.float32)
        whole = dataclasses.replace(
            whole, pointing=RecordedPixels(pixels, Healpix(16, nest=True), gains=gains)
        )
    words = [f"D{k}" for k in numbers]
    (one,) = select_observations([whole], SourceContext(Path()), observations=(), detectors=words)
    assert one.detectors == tuple(sorted(words))
    for detector, number in enumerate(sorted(numbers)):
        for mine, other in zip(numbers_of(one, detector), numbers_of(whole, number), strict=True):
            assert np.array_equal(mine, other)
        assert one.pointing.efficiency(detector) == whole.pointing.efficiency(number)
        assert one.pointing.has_gains == recorded


INTERVALS = st.lists(st.integers(0, 120), min_size=2, max_size=8, unique=True).map(
    lambda edges: tuple(zip(sorted(edges)[:-1:2], sorted(edges)[1::2], strict=True))
)


@given(st.lists(INTERVALS, min_size=1, max_size=3), st.floats(1e-9, 1.0))
def test_the_first_samples_are_a_fraction_of_those_in_intervals(intervals, fraction):
    made = [
        dataclasses.replace(observation(f"night-{number}", n_samp=120, n_det=2 + number), intervals=one)
        for number, one in enumerate(intervals)
    ]

    def samples(observations):
        return [
            (one.name, sample)
            for one in observations
            for start, stop in one.intervals
            for sample in range(start, stop)
            for _ in one.detectors
        ]

    kept, every = first_samples(made, fraction), samples(made)
    found = samples(kept)
    assert found == every[: len(found)]
    assert fraction * len(every) <= len(found) < fraction * len(every) + kept[-1].n_det
    assert all(one.intervals for one in kept)
    without = dataclasses.replace(made[0], intervals=())
    assert first_samples([without], fraction) == [without]  # which is told where it is mapped
    assert [one.n_samp for one in kept] == [120] * len(kept)


def test_a_run_of_half_the_samples_is_that_of_the_first_of_two_observations():
    settings = "[map]\nn_side = 8\n[noise]\nn_lag = 64\n[products]\nreport = false\n"
    scan = """
    [[source]]
    kind = "satellite"
    sample_rate = "4 Hz"
    duration = "6 h"
    n_observations = 2
    [[source]]
    kind = "noise"
    net = "1 mK s^0.5"
    fknee = "10 mHz"
    """
    half = petamap.run(parse_config(f"[run]\nfraction = 0.5\n{settings}{scan}"), progress=False)
    first, _ = open_sources(parse_config(settings + scan))
    alone = petamap.run(parse_config(settings), observations=[first], progress=False)
    assert half.summary.totals == alone.summary.totals
    np.testing.assert_array_equal(half.sky.values, alone.sky.values)
