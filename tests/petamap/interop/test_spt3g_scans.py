"""spt3g's scans: binned, they make the map of its own binner; polarization turns with the boresight."""

import numpy as np
import pytest

pytest.importorskip("spt3g", reason="no spt3g: make test-interop has one")

from spt3g import calibration, core, maps

import petamap
from petamap.interop.spt3g import g3_observations

N_SAMP, N_SIDE, RATE = 4000, 32, 20.0
NAMES = ("a", "b", "c", "d")
WHITE = {"solver.binned_only": True, "noise.kernel": "white"}
NOISE = petamap.OneOverF("50 uK s^0.5")
ANGLES, EFFICIENCIES = np.radians([0.0, 90.0, 45.0, 130.0]), (1.0, 0.9, 0.8, 1.0)


def calibration_frame(offset):
    frame, found = core.G3Frame(core.G3FrameType.Calibration), calibration.BolometerPropertiesMap()
    for k, name in enumerate(NAMES):
        one = calibration.BolometerProperties()
        one.x_offset, one.y_offset = k * offset * core.G3Units.rad, (2 - k) * offset * core.G3Units.rad
        one.pol_angle, one.pol_efficiency = ANGLES[k] * core.G3Units.rad, EFFICIENCIES[k]
        found[name] = one
    frame["BolometerProperties"] = found
    return frame


def scan(number=0, flagged=()):
    rng, t = np.random.default_rng(number), np.arange(N_SAMP) / RATE
    frame, streams = core.G3Frame(core.G3FrameType.Scan), core.G3TimestreamMap()
    start = core.G3Time(int((1.7e9 + number * 1000) * core.G3Units.s))
    stop = core.G3Time(int(start.time + (N_SAMP - 1) / RATE * core.G3Units.s))

    def stream(values, units=None):
        one = core.G3Timestream(values)
        one.start, one.stop = start, stop
        if units is not None:
            one.units = units
        return one

    for name in NAMES:
        values = 1e-4 * core.G3Units.K * rng.standard_normal(N_SAMP)
        streams[name] = stream(values, core.G3TimestreamUnits.Tcmb)
    frame["Timestreams"] = streams
    rad = core.G3Units.rad
    alpha, delta = (
        stream((1.0 + 0.3 * np.sin(0.3 * t)) * rad),
        stream((-0.9 + 0.001 * t + 0.01 * number) * rad),
    )
    frame["RaDecRotation"] = maps.get_origin_rotator_timestream(
        alpha, delta, maps.MapCoordReference.Equatorial
    )
    if flagged:
        flags = core.G3MapVectorString()
        for name in flagged:
            flags[name] = core.G3VectorString(["bad"])
        frame["Flags"] = flags
    return frame


def binned_by_spt3g(frames, convention):
    polarized = convention is not None
    stub = maps.HealpixSkyMap(
        N_SIDE, weighted=True, nested=False, coord_ref=maps.MapCoordReference.Equatorial,
        units=core.G3TimestreamUnits.Tcmb,
        pol_conv=convention,
    )  # fmt: skip
    binner = maps.MapBinner("one", stub, "RaDecRotation", "Timestreams")
    for frame in frames:
        binner(frame)
    (found,) = [
        one
        for one in binner(core.G3Frame(core.G3FrameType.EndProcessing))
        if one.type == core.G3FrameType.Map
    ]
    maps.RemoveWeights(found)
    return np.array([np.asarray(found[name]) for name in ("TQU" if polarized else "T")]) / core.G3Units.K


# K: of I alone, and of I, Q and U, whose angles are of 32 bits here
@pytest.mark.parametrize("polarized, most", [(False, 1e-18), (True, 4e-14)])
def test_the_binned_map_is_that_of_spt3g(polarized, most):
    frames = [calibration_frame(0.0 if polarized else 0.02), scan(0), scan(1)]
    theirs = binned_by_spt3g(frames, maps.MapPolConv.IAU if polarized else None)
    found = petamap.make_map(
        g3_observations(frames, "Timestreams", "RaDecRotation", noise=NOISE), options=WHITE, progress=False,
        pixelization=petamap.Healpix(N_SIDE), stokes="IQU" if polarized else "I",
    )  # fmt: skip
    mine = found.sky.values * [[1], [1], [-1]] if polarized else found.sky.values  # to IAU
    seen = np.isfinite(mine).all(axis=0)
    assert seen.sum() > 50 and found.sky.frame == "equatorial"
    np.testing.assert_allclose(mine[:, seen], theirs[:, seen], rtol=0, atol=most)


def test_spt3g_has_the_same_signs_with_u_of_iau():
    frames = [calibration_frame(0.0), scan()]
    (made,) = g3_observations(frames, "Timestreams", "RaDecRotation")
    for row, name in enumerate(made.detectors):
        _, angles = made.pointing.directions(row, 0, N_SAMP)
        response = made.pointing.efficiency(row) * np.sin(angles * (2 * np.pi / 2**32))
        np.asarray(frames[1]["Timestreams"][name])[:] = core.G3Units.K * response
    binned = binned_by_spt3g(frames, maps.MapPolConv.IAU)
    seen = np.abs(binned[2]) > 0.5
    assert seen.sum() > 20
    np.testing.assert_allclose(np.median(binned[:, seen], axis=1), [0, 0, -1], rtol=0, atol=1e-10)


def test_polarization_turns_with_the_boresight():
    """A boresight that is rolled by an angle sees a polarization that is turned by it."""
    frames = [calibration_frame(0.0), scan()]
    (plain,) = g3_observations(frames, "Timestreams", "RaDecRotation")
    roll = getattr(core, "Quat", None) or core.quat  # so3g brings an older spt3g of its own
    frames[1]["Rolled"] = frames[1]["RaDecRotation"] * roll(np.cos(0.1), np.sin(0.1), 0, 0)  # by 0.2
    (rolled,) = g3_observations(frames, "Timestreams", "Rolled")
    for detector in range(4):
        vectors, angles = plain.pointing.directions(detector, 0, 100)
        same, turned = rolled.pointing.directions(detector, 0, 100)
        np.testing.assert_allclose(same, vectors, rtol=0, atol=2e-15)
        step = (turned - angles).astype(np.int32) * (2 * np.pi / 2**32)
        np.testing.assert_allclose(np.abs(step), 0.4, rtol=0, atol=1.5e-9)


def test_files_flags_and_times(tmp_path):
    path = tmp_path / "scan.g3"
    writer = core.G3Writer(str(path))
    frames = [calibration_frame(0.01), scan(0, flagged=("b",)), scan(1)]
    frames[1]["Timestreams"]["c"][7] = np.nan
    for one in [*frames, core.G3Frame(core.G3FrameType.EndProcessing)]:
        writer(one)
    del writer
    one, other = g3_observations(path, "Timestreams", "RaDecRotation", noise=dict.fromkeys(NAMES, NOISE))
    assert one.detectors == ("a", "c", "d") and other.detectors == NAMES
    assert one.start_time == 1.7e9 and one.sample_rate == pytest.approx(RATE) and one.unit == "K_CMB"
    flags = np.zeros(10, np.uint8)
    one.flags[0].or_flags(1, 0, 10, flags)
    assert flags.tolist() == [0] * 7 + [1, 0, 0]
    found = petamap.make_map([one, other], n_side=16, progress=False)
    assert found.summary.solver.converged and found.summary.totals.observations == 2


def test_what_is_missing_is_named():
    frames = [calibration_frame(0.0), scan()]
    with pytest.raises(petamap.DataError, match="scan 0: has no 'Signal'"):
        g3_observations(frames, "Signal", "RaDecRotation")
    with pytest.raises(petamap.DataError, match="no frame before it"):
        g3_observations(frames[1:], "Timestreams", "RaDecRotation")
    with pytest.raises(petamap.ConfigError, match="unknown frame"):
        g3_observations(frames, "Timestreams", "RaDecRotation", frame="local")
