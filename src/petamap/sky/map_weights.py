"""Weights of the pixels of a map: hits, or inverse variances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.sky.map_arithmetic import check_same_sky

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap


def column_weights(sky_map: SkyMap, weights: SkyMap | FloatArray | None) -> FloatArray:
    """Return the weights of all pixels in each column, (n_columns, n_pix); nan counts as 0.

    Parameters
    ----------
    sky_map : SkyMap
    weights : SkyMap, float array (n_pix,) or (n_columns, n_pix), or None
        Of one column for all, or of each; None: all alike.

    Raises
    ------
    DataError
        If they are on other pixels, have a unit or masked values, or a weight is negative or infinite.
    """
    if weights is None:
        return np.broadcast_to(np.ones(1), sky_map.values.shape)
    if isinstance(weights, np.ndarray):
        values = real_array(weights, "weights")
    else:
        check_same_sky(sky_map, weights)
        values = weights.values
    array = np.nan_to_num(values, posinf=np.inf, neginf=-np.inf)
    if array.shape not in (sky_map.values.shape, sky_map.values[:1].shape, sky_map.values.shape[1:]):
        raise DataError(
            f"weights of shape {array.shape} for a map of shape {sky_map.values.shape}",
            mend="give one weight a pixel, or one a pixel and column",
        )
    bad = (array < 0) | np.isinf(array)
    if bad.any():
        pixel = int(np.nonzero(bad)[-1][0])
        raise DataError(f"the weight of pixel {pixel} is negative or infinite", mend="weights are 0 or more")
    return np.broadcast_to(array, sky_map.values.shape)
