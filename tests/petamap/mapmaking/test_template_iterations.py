"""Iterations with templates beside those without, and the inverse of amplitudes that streams share."""

from types import SimpleNamespace

import numpy as np
import pytest
from mpi import check_same_on_ranks

from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.mapmaking import model_inputs, preconditioning
from petamap.mapmaking.amplitude_inverse import AmplitudeInverse
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.stop_rule import SolverTolerance

SCAN = """
[map]
n_side = 64
[resources]
threads = 1
[solver]
rcond_solved = 1e-3
[[source]]
kind = "ground"
n_det = 2
spacing = "0.5 deg"
net = "300 uK s^0.5"
fknee = "0.5 Hz"
alpha = -2.5
fmin = "1 mHz"
sample_rate = "20 Hz"
duration = "20 min"
n_observations = 4
azimuth_min = "160 deg"
azimuth_max = "200 deg"
"""
NOISE = '[[source]]\nkind = "noise"\n'
PICKUP = '[[source]]\nkind = "azimuth-synchronous"\nbins = 20\n'


def iterations(templates):
    setup = RunSetup(parse_config(SCAN + templates + NOISE), SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    system = setup.set_up()
    solution = system.solver().solve(right_hand_side(system).unknowns, SolverTolerance(1e-6), 200)
    assert solution.converged
    return solution.iterations


@pytest.fixture(scope="module")
def without():
    return iterations("")


@pytest.mark.parametrize(
    "templates",
    [
        '[[source]]\nkind = "baselines"\nlength = "30 s"\n',
        PICKUP,
        PICKUP + 'all_detectors = true\nper = "run"\n',
        PICKUP + 'per = "run"\n',
    ],
)
def test_templates_take_few_more_iterations(templates, without):
    assert iterations(templates) <= 1.5 * without


def test_slow_modes_are_why(monkeypatch):
    """Of baselines, which nothing but the noise's least frequency tells from the mean of the map."""
    baselines = '[[source]]\nkind = "baselines"\nlength = "30 s"\n'
    with_modes = iterations(baselines)
    monkeypatch.setattr(model_inputs, "slow_steps", lambda *_: 0)
    assert iterations(baselines) > 1.5 * with_modes


def test_amplitudes_beside_the_model_take_longer(monkeypatch):
    """Too many in common are solved for by the mean of the streams' own inverses, which takes longer."""
    shared = PICKUP + 'all_detectors = true\nper = "run"\n'
    in_model = iterations(shared)
    monkeypatch.setattr(preconditioning, "_MOST_CONNECTED", 3)
    assert iterations(shared) > 1.5 * in_model


def _bits(comm):
    """Return iterations and map of detectors that share noise, and pickup with another observation."""
    text = SCAN.replace('"20 min"', '"4 min"').replace("= 4", "= 2") + PICKUP + 'per = "run"\n'
    mode = '[[source]]\nkind = "common-mode"\nnet = "100 uK s^0.5"\nfknee = "1 Hz"\nfmin = "1 mHz"\n'
    setup = RunSetup(parse_config(text + mode + NOISE), comm, SilentProgress())
    setup.open(open_sources)
    system = setup.set_up()
    solution = system.solver().solve(right_hand_side(system).unknowns, SolverTolerance(1e-6), 200)
    keys, values = zip(*comm.allgather((system.keys, solution.map.pixels)), strict=True)
    return solution.iterations, np.concatenate(values)[np.argsort(np.concatenate(keys))].tobytes()


def test_ranks_without_a_group_take_part():
    check_same_on_ranks(_bits, 3)


def positive(rng, n):
    root = rng.standard_normal((n, n + 3))
    return root @ root.T


def test_the_inverse_is_that_of_the_sum():
    rng = np.random.default_rng(3)
    # own amplitudes, and some in common: the second stream connects those of the first and the third, and the
    # last two streams have a set of others, between these
    keys = np.array([100, 101, 1, 2, 102, 1, 2, 7, 103, 7, 3, 104, 5, 3, 5])
    sizes = [4, 4, 2, 3, 2]
    matrices = [positive(rng, n) for n in sizes]
    ends = np.cumsum([0, *sizes])
    unique, numbers = np.unique(keys, return_inverse=True)
    once = np.eye(len(unique))[numbers]
    total = np.zeros((len(unique),) * 2)
    for begin, end, matrix in zip(ends, ends[1:], matrices, strict=False):
        total += once[begin:end].T @ matrix @ once[begin:end]
    inverse = AmplitudeInverse(
        matrices, [np.diag(one).copy() for one in matrices], keys, keys < 100, SerialCommunicator(), 0.0
    )
    values = rng.standard_normal((len(keys), 4))
    expected = once @ np.linalg.solve(total, once.T @ values)
    np.testing.assert_allclose(inverse(values), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_sets_that_streams_connect_are_counted(monkeypatch):
    setup = RunSetup(
        parse_config(SCAN + PICKUP + 'per = "run"\n' + NOISE), SerialCommunicator(), SilentProgress()
    )
    setup.open(open_sources)
    terms = setup.set_up().projection.amplitudes.terms
    # two detectors, each with twenty bins that its four observations share
    assert terms.largest_common_sets() == (20, 800)
    shared = [SimpleNamespace(**{**vars(one), "common_noise": (1,)}) for one in terms.observations]
    monkeypatch.setattr(terms, "observations", shared)
    assert terms.largest_common_sets() == (40, 1600)
