"""so3g: its sight lines and focal planes as petamap's compressed pointing.

Its quaternions are those of petamap with the scalar first: both turn Z to the line of sight and X to the
polarization axis, Rz(phi) Ry(theta) Rz(psi), with psi from south to east, so signs of U are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate


def so3g_pointing(sight: Any, focal_plane: Any, hwp_angle: Any = None) -> CompressedPointing:
    """Return the pointing of so3g's sight line and focal plane, for `petamap.array_observation`.

    Parameters
    ----------
    sight : CelestialSightLine, G3VectorQuat or array (n_samp, 4)
        Boresight of each sample on the sky, scalar first.
    focal_plane : FocalPlane, G3VectorQuat or array (n_det, 4)
        Quaternions of detectors, scalar first; a `FocalPlane` has responses to I and to Q and U, too.
    hwp_angle : array (n_samp,), optional
        Angle of an ideal half-wave plate, radians, as sotodlib's: it reflects the polarization angles gamma
        of the focal plane, and turns the response by four times its angle.

    Returns
    -------
    CompressedPointing

    Raises
    ------
    DataError
        If a quaternion is no rotation, or a response is not between 0 and 1.
    """
    knots = scalar_last(getattr(sight, "Q", sight), "sight")
    quats = getattr(focal_plane, "quats", focal_plane)
    detectors = scalar_last(quats, "focal plane")
    responses = np.asarray(getattr(focal_plane, "resps", np.ones((len(detectors), 2))), np.float64)
    bad = np.flatnonzero(~((responses >= 0) & (responses <= 1)).all(axis=1))
    if len(bad):
        raise DataError(
            f"responses {responses[bad[0]]} are not between 0 and 1", where=f"focal plane, detector {bad[0]}",
            mend="calibrate the signal of such a detector instead",
        )  # fmt: skip
    plate = None if hwp_angle is None else SampledPlate(np.array(hwp_angle, np.float64))
    return CompressedPointing(
        Boresight(knots, len(knots)), detectors, epsilon=(1 - responses[:, 1]) / (1 + responses[:, 1]),
        plate=plate, intensity=responses[:, 0],
    )  # fmt: skip


def scalar_last(quaternions: Any, what: str) -> FloatArray:
    """Return quaternions of so3g and spt3g, scalar first, as petamap has them, (n, 4) with the scalar last.

    Parameters
    ----------
    quaternions : G3VectorQuat, G3TimestreamQuat or array (n, 4)
    what : str
        What they are of, for messages.

    Raises
    ------
    DataError
        If they have another shape.
    """
    array = np.asarray(quaternions, np.float64)
    if array.ndim != 2 or array.shape[1] != 4:
        raise DataError(f"has the shape {array.shape}", where=what, mend="give quaternions (n, 4)")
    return np.ascontiguousarray(np.roll(array, -1, axis=1))
