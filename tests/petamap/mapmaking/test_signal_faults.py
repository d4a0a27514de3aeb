"""Dead channels and steps are told in a warning; ordinary signals are not."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mpi import run_ranks
from small_runs import noisy_scans, run_on
from small_systems import Bad, Models, Samples, spinning

from petamap.data.observation import Observation, read_signal
from petamap.noise.model import OneOverF
from petamap.simulation.noise import SimulatedNoise


def scans(seed=0, n_samp=9000, n_det=4, sky=True, noise=True, net=1.0, fknee=0.05):
    """Return two observations of a red sky with a dipole and 1/f noise, of detectors that spin at 5 Hz."""
    made = []
    for uid, (name, n) in enumerate([("one", n_samp), ("two", n_samp // 2)]):
        models = Models(tuple((OneOverF(net, fknee, 1e-4, -2.0),) for _ in range(n_det)))
        bare = Observation(
            name=name, uid=uid, n_samp=n, sample_rate=5.0, detectors=tuple(f"d{d}" for d in range(n_det)),
            intervals=((0, n),), pointing=spinning(n, 0.21, n_det, 5 + uid), frame="galactic",
            noise=models,
        )  # fmt: skip
        signals = []
        if sky:
            phase = 0.21 * np.arange(n)[None, :] + np.arange(n_det)[:, None]
            planet = 500.0 * np.exp(-(((phase + 0.3) % (2 * np.pi) / 0.01) ** 2))
            signals.append(Samples(3.0 * np.sin(phase) + np.sin(3 * phase + 1) + planet))
        if noise:
            signals.append(SimulatedNoise(bare, models, seed, 0))
        made.append(replace(bare, signals=tuple(signals)))
    return made


def with_step(observation, detector, sample, change, back=None):
    """Return the observation with a step in a detector, which ends at `back`."""
    step = np.zeros((observation.n_det, observation.n_samp))
    step[detector, sample:back] = change
    return replace(observation, signals=(*observation.signals, Samples(step)))


def faults(made, out, ranks=None, **changes):
    few = {"hits": False, "covariance": False, "rcond": False}
    found = run_on(made, out, ranks, solver={"binned_only": True}, products=few, **changes).warnings
    return [text for text in found if "constant" in text or "steps" in text]


def test_steps_of_a_run_are_one_warning_with_the_first_samples(tmp_path):
    one, two = scans()
    one = with_step(with_step(one, 2, 5000, 20.0), 1, 7001, -20.0)
    (text,) = faults([one, with_step(two, 0, 2345, 20.0)], tmp_path)
    places = [part.rpartition(" ") for part in text.split(":")[0].split(", ") if part.startswith("sample")]
    found = [int(number) for _, _, number in places]
    assert np.abs(np.array(found) - [7001, 5000, 2345]).max() <= 3, text
    order = ["observation one, detector d1", "observation one, detector d2", "observation two, detector d0"]
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    assert "K_CMB" in text and "flag the samples around" in text


def test_dead_channels_are_one_warning(tmp_path):
    one, two = scans()
    for dead, value in ((one, 0.0), (two, 7.5)):
        values = np.array([read_signal(dead, d, 0, dead.n_samp) for d in range(dead.n_det)])
        values[1] = value
        dead_one = replace(dead, signals=(Samples(values),))
        one, two = (dead_one, two) if dead is one else (one, dead_one)
    (text,) = faults([one, two], tmp_path)
    assert text.startswith(
        "observation one, detector d1, observation two, detector d1: the signal is constant"
    )
    assert "'cuts'" in text


def test_a_dead_channel_is_told_from_the_good_samples_alone(tmp_path):
    (one, _) = scans()
    values = np.array([read_signal(one, d, 0, one.n_samp) for d in range(one.n_det)])
    bad = np.zeros(values.shape, bool)
    bad[3, ::7] = True
    bad[3, :1000] = True
    values[3] = np.where(bad[3], 1e3, 2.0)
    (text,) = faults([replace(one, signals=(Samples(values),), flags=(Bad(bad),))], tmp_path)
    assert "detector d3: the signal is constant" in text


@pytest.mark.parametrize("seed", range(6))
def test_ordinary_signals_have_no_faults(tmp_path, seed):
    rng = np.random.default_rng(seed)
    made = scans(seed, fknee=float(rng.choice([0.0, 0.01, 0.5])), net=float(rng.choice([1e-3, 1.0, 30.0])))
    assert faults(made, tmp_path / "a", map={"n_side": int(rng.choice([4, 16]))}) == []
    assert faults(scans(seed, noise=False), tmp_path / "b") == []
    assert faults(scans(seed, sky=False), tmp_path / "c") == []


def test_a_sky_without_noise_that_is_zero_or_constant_has_no_dead_channels(tmp_path):
    made = scans(sky=False, noise=False)
    constant = [replace(one, signals=(Samples(np.full((one.n_det, one.n_samp), 2.5)),)) for one in made]
    assert faults(made, tmp_path / "a") == [] and faults(constant, tmp_path / "b") == []


def test_transients_and_drifts_are_no_steps(tmp_path):
    one, two = scans()
    one = with_step(one, 0, 4000, 300.0, back=4050)
    drift = np.linspace(0, 1e3, two.n_samp) * np.ones((two.n_det, 1))
    assert faults([one, replace(two, signals=(*two.signals, Samples(drift)))], tmp_path) == []


def test_any_number_of_threads_finds_the_same(tmp_path):
    one, two = scans()
    made = [with_step(one, 2, 5000, 20.0), two]
    found = [faults(made, tmp_path / str(n), resources={"threads": n}) for n in (1, 3)]
    assert found[0] == found[1] and len(found[0]) == 1


def with_both_faults():
    one, two = scans(n_samp=4500)
    values = np.array([read_signal(two, d, 0, two.n_samp) for d in range(two.n_det)])
    values[1] = 3.0
    return [with_step(one, 2, 2500, 20.0), replace(two, signals=(Samples(values),))]


def ranks_tell(comm):
    with tempfile.TemporaryDirectory() as folder:
        for text in faults(with_both_faults(), Path(comm.bcast(folder)), comm, comm={"reduction": "owner"}):
            if comm.rank == 0:
                print(text)
        comm.barrier()


def test_any_number_of_ranks_finds_the_same(tmp_path):
    alone = faults(with_both_faults(), tmp_path)
    assert run_ranks(ranks_tell, 2).out.splitlines() == alone and len(alone) == 2


def test_flagged_noisy_scans_have_no_faults(tmp_path):
    assert faults(noisy_scans(flagged=0.3), tmp_path) == []
