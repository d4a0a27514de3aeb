"""Templates of a run configuration: what they hold, and what is said of wrong ones."""

import numpy as np
import pytest
from made_scans import ground

from petacomm.base.errors import ConfigError
from petamap.data.config import open_sources
from petamap.data.template import IndependentPrior, NoisePrior, Sharing
from petamap.templates.kinds import AzimuthSynchronous, azimuth_span, plate_turns
from petamap.templates.subscans import find_subscans


def opened(*entries, change=None):
    more = "".join(f'[[source]]\nkind = "{kind}"\n{options}\n' for kind, options in entries)
    return open_sources(ground(more=more, change=change))


def term_of(kind, options="", change=None):
    (observation,) = opened((kind, options), change=change)
    (template,) = observation.templates
    start, stop = observation.intervals[0]
    return observation, template.term(observation, start, stop)


def test_offsets_are_one_number_a_stream():
    _, term = term_of("offsets")
    assert term.n_amplitudes == 1
    assert np.all(term.matrix(0, 100).toarray() == 1)


def test_baselines_are_no_longer_than_asked_for():
    observation, term = term_of("baselines", 'length = "7 s"')
    assert term.longest <= 7 * observation.sample_rate
    assert term.edges[-1] == observation.n_samp


def test_subscans_end_where_the_telescope_turns_back():
    (observation,) = opened()
    edges = find_subscans(observation, 0, observation.n_samp)
    azimuths = observation.azimuth.azimuths(0, observation.n_samp)
    backwards = np.flatnonzero(np.diff(np.sign(np.diff(azimuths))) != 0)
    assert len(edges) - 2 == len(backwards) > 10
    assert np.abs(edges[1:-1] - backwards).max() <= 0.4 * observation.sample_rate


def test_subscans_are_found_from_the_pointing_alone():
    import dataclasses

    (observation,) = opened()
    known = find_subscans(observation, 0, observation.n_samp)
    found = find_subscans(dataclasses.replace(observation, azimuth=None), 0, observation.n_samp)
    assert len(found) == len(known)
    assert np.abs(found - known).max() <= 0.5 * observation.sample_rate


def test_polynomials_are_orthogonal_in_each_subscan():
    _, term = term_of("polynomials", "order = 3")
    whole = term.matrix(0, int(term.edges[-1])).toarray()
    cell = whole[term.edges[1] : term.edges[2], 4:8]
    products = cell.T @ cell / len(cell)
    np.testing.assert_allclose(products, np.diag(1 / (2 * np.arange(4) + 1)), rtol=0, atol=0.01)


@pytest.mark.parametrize("options", ["bins = 12", "order = 3", 'bins = 4\ndrift = "3 min"'])
def test_functions_of_azimuth(options):
    observation, term = term_of("azimuth-synchronous", options)
    azimuths = observation.azimuth.azimuths(0, observation.n_samp)
    phase = (azimuths - azimuths.min()) / np.ptp(azimuths)
    one = np.random.default_rng(1).standard_normal(term.n_functions)
    values = term.matrix(0, observation.n_samp) @ np.tile(one, term.n_sets)
    if term.functions == "bins":
        expected = one[np.minimum((phase * len(one)).astype(int), len(one) - 1)]
    else:
        expected = np.polynomial.legendre.legval(2 * phase - 1, [0.0, *one])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)
    assert (term.n_sets > 1) == ("drift" in options)


PLATE = ("elevation =", 'hwp_frequency = "2 Hz"\nelevation =')


def test_harmonics_of_the_plate():
    observation, term = term_of("plate-synchronous", "first = 2\nlast = 4", change=PLATE)
    turns = plate_turns(observation, 0, 50)
    angles = 2 * np.pi * turns / 2.0**32
    expected = [f(k * angles) for k in (2, 3, 4) for f in (np.cos, np.sin)]
    np.testing.assert_allclose(term.matrix(0, 50).toarray().T, expected, rtol=0, atol=1e-6)
    steps = np.diff(angles) % (2 * np.pi)
    np.testing.assert_allclose(
        steps, 2 * np.pi * 2 / observation.sample_rate % (2 * np.pi), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("offsets", ""), ("offsets", "")], "offsets twice"),
        ([("offsets", 'observations = ["nihgt"]')], "nihgt"),
        ([("azimuth-synchronous", "bins = 3\norder = 2")], "one of the three"),
        ([("azimuth-synchronous", "")], "one of the three"),
        ([("plate-synchronous", "first = 5\nlast = 3")], "harmonics 5 to 3"),
    ],
)
def test_what_is_wrong_is_told(entries, message):
    with pytest.raises(ConfigError, match=message):
        opened(*entries)


def test_harmonics_of_a_narrow_range_are_refused():
    (observation,) = opened()
    with pytest.raises(ConfigError, match="set order or bins"):
        AzimuthSynchronous(harmonics=3).term(observation, 0, observation.n_samp)


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("baselines", 'prior = "noise"', NoisePrior()),
        ("offsets", 'rms = "2 mK"', IndependentPrior(2e-3)),
        ("polynomials", 'rms = "3 K"', IndependentPrior(3.0)),
        ("azimuth-synchronous", 'order = 2\nrms = "3 K"', IndependentPrior(3.0)),
        ("baselines", "", None),
    ],
)
def test_what_is_known_of_amplitudes(kind, options, expected):
    _, term = term_of(kind, options)
    assert term.prior == expected


@pytest.mark.parametrize("rms", ["1e-300 K", "1e300 K"])
def test_priors_whose_variance_is_no_number_are_refused(rms):
    with pytest.raises(ConfigError, match="from 1e-60 to 1e60"):
        opened(("offsets", f'rms = "{rms}"'))


def test_two_priors_are_refused():
    with pytest.raises(ConfigError, match="two priors"):
        opened(("baselines", 'prior = "noise"\nrms = "1 K"'))


def test_observations_share_functions_of_azimuth():
    (one,) = opened(("azimuth-synchronous", 'bins = 5\nper = "run"\nall_detectors = true'))
    (template,) = one.templates
    azimuths = one.azimuth.azimuths(0, one.n_samp)
    assert template.sharing == Sharing("run", True)
    np.testing.assert_allclose(template.span, (azimuths.min(), azimuths.max()))
    half = template.term(one, 0, 200)  # of the same bins, not of its own range
    expected = np.minimum((5 * (azimuths[:200] - azimuths.min()) / np.ptp(azimuths)).astype(int), 4)
    np.testing.assert_array_equal(half.bins, expected)


def test_what_drifts_is_not_shared():
    with pytest.raises(ConfigError, match="drift"):
        opened(("azimuth-synchronous", 'bins = 5\nper = "run"\ndrift = "3 min"'))


def test_an_empty_interval_has_no_azimuths():
    import dataclasses

    (observation,) = opened()
    n = observation.n_samp
    empty = dataclasses.replace(observation, intervals=((0, 0), (0, n), (n, n)))
    assert azimuth_span([empty]) == azimuth_span([observation])
