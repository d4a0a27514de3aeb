"""What is wrong with arrays is said in one error that names argument, detector, sample and mend."""

import numpy as np
import pytest
from astropy import units

import petamap
from petacomm.base.errors import DataError

SHAPE = (2, 500)
NOISE = petamap.OneOverF("60 uK s^0.5")
HEALPIX = petamap.Healpix(4)


def arrays():
    t = np.arange(SHAPE[1])
    phi = np.tile(0.02 * t, (2, 1))
    return {"theta": 1.0 + 0 * phi, "phi": phi, "psi": np.array([[0.0], [1.0]]) + 0.1 * t}


def mapped(data=None, **changes):
    given = {**arrays(), "noise": NOISE, "sample_rate": 10.0, "n_side": 4, "progress": False} | changes
    return petamap.make_map(np.zeros(SHAPE) if data is None else data, **given)


def with_sample(name, value):
    array = arrays()[name]
    array[1, 7] = value
    return {name: array}


FAULTS = {
    "shape of theta": ({"theta": np.ones((2, 499))}, "theta: has the shape .2, 499., the signal .2, 500"),
    "shape of flags": ({"flags": np.zeros(499, bool)}, "flags: has the shape"),
    "flags of floats": ({"flags": np.zeros(500)}, "flags: is of type float64.*bool or integers"),
    "degrees": ({"theta": np.full(500, 57.0)}, "theta, detector d0, sample 0: is 57.*radians.*numpy.radians"),
    "a latitude": (with_sample("theta", -0.2), "theta, detector d1, sample 7: is -0.2.*pi / 2 - latitude"),
    "a nan of theta": (with_sample("theta", np.nan), "theta, detector d1, sample 7: is nan.*flag such"),
    "a nan of psi": (with_sample("psi", np.nan), "psi, detector d1, sample 7: is nan"),
    "an infinite phi": (with_sample("phi", np.inf), "phi, detector d1, sample 7: is inf"),
    "no phi": ({"phi": None}, "theta and phi are given together"),
    "no pointing": ({"theta": None, "phi": None, "psi": None}, "no pointing.*theta and phi; pixels; or"),
    "two ways": ({"pixels": np.zeros(SHAPE, int)}, "several ways"),
    "no psi": ({"psi": None}, "at what angles detectors look"),
    "no noise": ({"noise": None}, "what the noise is.*petamap.OneOverF"),
    "another word": ({"noise": "estimated"}, "unknown noise 'estimated'"),
    "noise of three": ({"noise": [NOISE] * 3}, "noise: 3 models for 2 detectors"),
    "noise as a number": ({"noise": 60e-6}, "noise, detector d0: is a float, no model of noise"),
    "half a sample": ({"intervals": [(0, 100.5)]}, "intervals: are no pairs of samples"),
    "noise of what": ({"noise": [NOISE, 3.0]}, "noise, detector d1: is a float"),
    "negative noise": ({"noise": petamap.OneOverF(-1.0)}, "noise, detector d0: net is -1"),
    "no rate": ({"sample_rate": None}, "sample rate is not given.*10 Hz"),
    "a rate in m": ({"sample_rate": 10 * units.m}, "'m' is no unit of frequency"),
    "an angle in K": ({"psi": np.zeros(500) * units.K}, "psi: 'K' is no unit of angle"),
    "masked angles": ({"phi": np.ma.masked_array(np.zeros(500), np.arange(500) == 3)}, "phi: has masked"),
    "flags in K": ({"flags": np.zeros(500, int) * units.K}, "flags: is in 'K'"),
    "two units": ({"data": np.zeros(SHAPE) * units.uK, "unit": "mK"}, "unit: the signal is in 'uK'"),
    "a rate of what": ({"sample_rate": "10 m"}, "unknown frequency unit 'm'"),
    "a negative rate": ({"sample_rate": -10.0}, "sample rate of -10"),
    "two rates": ({"sample_rate": np.array([10.0])}, "sample_rate: is a ndarray, no number"),
    "a communicator": ({"comm": 3}, "comm: int is no communicator"),
    "two resolutions": ({"options": {"map.n_side": 8}}, "map.n_side is 8, the arguments say 4"),
    "two orders": (
        {"n_side": None, "pixelization": HEALPIX, "options": {"map": {"ordering": "nest"}}},
        "map.ordering is 'nest', the arguments say 'ring'",
    ),
    "no map": ({"n_side": None}, "n_side is missing"),
    "two maps": ({"pixelization": HEALPIX}, "both n_side and pixelization"),
    "no power of two": ({"n_side": 5}, "n_side must be a power of two"),
    "efficiencies": ({"efficiency": [0.5, 1.5]}, "efficiency, detector d1: is 1.5"),
    "names": ({"detectors": ["A"]}, "detectors: 1 names for 2"),
    "numbers for names": ({"detectors": [1, 2]}, r"detectors: must be a sequence of names, not \[1, 2\]"),
    "a number for names": ({"detectors": 5}, "detectors: must be a sequence of names, not 5"),
    "a text for names": ({"detectors": "AB"}, "detectors: must be a sequence of names, not 'AB'"),
    "the same names": ({"detectors": ["A", "A"]}, "are called A"),
    "intervals": ({"intervals": [(0, 600)]}, "interval 0"),
    "a frame": ({"frame": "celestial"}, "frame.*celestial"),
    "an option": ({"options": {"solver.tolerence": 1e-8}}, "options: unknown key.*tolerance"),
    "an option's place": ({"options": {"max_iterations": 3}}, "unknown option.*solver.max_iterations"),
    "an option's value": ({"options": {"solver": {"max_iterations": -1}}}, "options: .*out of bounds"),
    "a list of options": ({"options": ["solver.tolerance=1"]}, "options: are a list, no mapping"),
    "a number for pixels": ({"n_side": None, "pixelization": 4}, "pixelization: 4 is no pixeliz.*n_side"),
    "a class for pixels": ({"n_side": None, "pixelization": petamap.CarPatch}, "CarPatch is no pixeliz"),
    "gamma alone": ({"gamma": [0.0, 1.0]}, "gamma: turns .* alone.*give hwp_angle"),
    "azimuths": ({"azimuth": np.zeros(3)}, "azimuth: has the shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name):
    changes, message = FAULTS[name]
    with pytest.raises(petamap.UserError, match=f"(?s){message}"):
        mapped(**changes)


@pytest.mark.parametrize(
    "signal, message",
    [
        (np.zeros((2, 3, 4)), "signal: is an array .2, 3, 4."),
        (np.zeros((2, 0)), "signal: is an array .2, 0."),
        (np.full(SHAPE, "a"), "signal: is an array .* of <U1"),
        (np.where(np.arange(1000).reshape(SHAPE) == 503, np.nan, 0), "detector d1, sample 3.*is nan.*flag"),
    ],
)
def test_a_faulty_signal_is_named(signal, message):
    with pytest.raises(petamap.DataError, match=f"(?s){message}"):
        mapped(signal)


PIXELS = np.zeros(SHAPE, int)
RING = {"theta": None, "phi": None, "n_side": None, "pixelization": HEALPIX}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"pixels": np.full(SHAPE, 192)}, "pixels, detector d0, sample 0: is 192, not one of 192 pixels"),
        ({"pixels": np.zeros(SHAPE)}, "pixels: is of type float64.*integers, as"),
        ({"pixels": np.zeros(SHAPE, int), "pixelization": None, "n_side": 4}, "or their order"),
        ({"pixels": PIXELS, "weights": np.ones((*SHAPE, 3))}, "both psi and weights"),
        ({"pixels": PIXELS, "weights": np.ones(SHAPE), "psi": None}, "weights: is an array"),
        (
            {"pixels": np.zeros(SHAPE, int), "weights": np.ones((*SHAPE, 3)), "psi": None},
            "efficiency of 1.41",
        ),
        ({"pointing": np.zeros((2, 500, 3)), "psi": None}, "pointing: has the shape .2, 500, 3"),
        ({"pointing": [1, 2]}, "pointing is a list"),
        ({"pointing": np.zeros((2, 500, 4)), "psi": None}, "detector d0, sample 0: is 0 long.*flag"),
    ],
)
def test_faulty_pixels_and_quaternions_are_named(changes, message):
    with pytest.raises(petamap.UserError, match=f"(?s){message}"):
        mapped(**{**RING, **changes})


def test_efficiencies_of_samples_must_be_one_number():
    weights = np.ones((*SHAPE, 3)) * [1.0, 0.6, 0.8]
    weights[1, 9, 1:] *= 0.5
    given = {**RING, "pixels": np.zeros(SHAPE, int), "psi": None, "weights": weights}
    with pytest.raises(petamap.DataError, match=r"weights, detector d1, sample 9.*0\.5"):
        mapped(**given)


@pytest.mark.parametrize("name, value", [("efficiency", 0.5), ("hwp_angle", np.zeros(500)), ("psi", 0.1)])
def test_what_pointing_has_itself_is_not_ignored(name, value):
    boresight = petamap.Boresight(np.tile([0.0, 0.0, 0.0, 1.0], (500, 1)), 500)
    pointing = petamap.CompressedPointing(boresight, np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)))
    given = {"theta": None, "phi": None, "psi": None, "pointing": pointing, name: value}
    with pytest.raises(petamap.ConfigError, match=f"{name}: a CompressedPointing has its own"):
        mapped(**given, gamma=[0.0, 1.0] if name == "hwp_angle" else None)


def test_weights_have_the_efficiency():
    given = {**RING, "pixels": PIXELS, "psi": None, "weights": np.ones((*SHAPE, 1)), "stokes": "I"}
    with pytest.raises(petamap.ConfigError, match="efficiency: weights have it"):
        mapped(**given, efficiency=0.5)


def test_observations_have_their_parts_themselves():
    one = petamap.array_observation(np.zeros(SHAPE), **arrays(), noise=NOISE, sample_rate=10.0)
    with pytest.raises(petamap.ConfigError, match="noise is part of the observations"):
        petamap.make_map([one], noise=NOISE, n_side=4)
    with pytest.raises(petamap.ConfigError, match="unit is part of the observations"):
        petamap.make_map(one, unit="uK", n_side=4)
    with pytest.raises(petamap.ConfigError, match="unknown noise 'estimated'"):
        petamap.make_map(one, noise="estimated", n_side=4)
    with pytest.raises(petamap.DataError, match="two observations are called 'arrays'"):
        petamap.make_map([one, one], n_side=4, progress=False)
    with pytest.raises(petamap.ConfigError, match="data: there is no observation"):
        petamap.make_map([], n_side=4)
    with pytest.raises(petamap.ConfigError, match="data, number 1: is a ndarray among observations"):
        petamap.make_map([one, np.zeros(SHAPE)], n_side=4)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"name": 3}, "name: must be text"),
        ({"start_time": "2026-01-01"}, "time unit"),
        ({"start_time": np.zeros(2)}, "start_time: is a ndarray, no number"),
    ],
)
def test_names_and_times_are_looked_at(changes, message):
    with pytest.raises(petamap.ConfigError, match=message):
        petamap.array_observation(np.ones(SHAPE), **arrays(), noise=NOISE, sample_rate=10.0, **changes)


def test_observations_of_an_unknown_frame_are_not_mapped_in_a_known_one():
    given = {**arrays(), "noise": NOISE, "sample_rate": 10.0}
    unknown = petamap.array_observation(np.ones(SHAPE), **given, name="day")
    known = petamap.array_observation(np.ones(SHAPE), **given, name="night", uid=1, frame="equatorial")
    for data, frame in (([known, unknown], None), ([unknown], "equatorial")):
        with pytest.raises(petamap.ConfigError, match=r"observation day: .* frame .* the map is equatorial"):
            petamap.make_map(data, frame=frame, n_side=4)


def test_observations_come_in_any_sequence():
    one = petamap.array_observation(np.ones(SHAPE), **arrays(), noise=NOISE, sample_rate=10.0)
    plain = petamap.make_map(one, n_side=4, progress=False)
    for data in (iter([one]), np.array([one], object)):
        found = petamap.make_map(data, n_side=4, progress=False)
        np.testing.assert_array_equal(found.sky.values, plain.sky.values)


def test_samples_that_are_told_are_those_of_the_stream():
    data = np.zeros(SHAPE)
    data[1, [7, 30, 499]] = np.nan
    with pytest.raises(DataError, match=r"d1, sample 7: is nan, the first of 3 .* up to sample 499 "):
        mapped(data)
