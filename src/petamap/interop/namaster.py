"""NaMaster (pymaster): maps, weights, bins and couplings as its fields, bins and workspaces, and back.

Its conventions are HEALPix's, as petamap's: signs of Q, U, E and B are the same, and so are means of D_l.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymaster as nmt

from petacomm.base.errors import ConfigError, DataError, require_known
from petacomm.base.typing import FloatArray
from petamap.sky.healpix import Healpix
from petamap.sky.sky_map import SkyMap
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.coupling import KINDS, Coupling
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.transforms import Harmonics, check_weights

# Spectra of a workspace in NaMaster's order, by the first, and the matrices that mix them
_SPECTRA = {"TT": ("TT",), "TE": ("TE", "TB"), "ET": ("ET", "BT"), "EE": ("EE", "EB", "BE", "BB")}
_KINDS = {"TT": ("00",), "TE": ("02",), "ET": ("20",), "EE": ("++", "--")}


def namaster_field(
    sky: SkyMap,
    weights: FloatArray,
    *,
    l_max: int | None = None,
    beam: FloatArray | None = None,
    pure: str = "",
) -> nmt.NmtField:
    """Return a map as a field of NaMaster: I of spin 0, or Q and U of spin 2.

    Parameters
    ----------
    sky : SkyMap
        HEALPix, of one column, or of Q and U: ``sky["I"]``, ``sky["Q", "U"]``.
    weights : float64 (n_pix,)
        In the order of the map's pixels; 0 where the map was not observed.
    l_max : int, optional
        Last multipole, that of the bins; 3 n_side - 1 by default.
    beam : float64 (l_max + 1,), optional
        Window of beam and pixels, which NaMaster divides out.
    pure : {"", "B", "EB"}
        Components to be purified.

    Raises
    ------
    DataError
        If a pixel has a weight and no value, or weights do not fit.
    ConfigError
        If it is no HEALPix map of I or of Q and U.
    """
    pixels = sky.pixelization
    if not isinstance(pixels, Healpix) or len(sky.names) not in (1, 2):
        raise ConfigError(
            f"{', '.join(sky.names)} on {pixels!r} make no field",
            mend='sky["I"], or sky["Q", "U"], of HEALPix; of a part of it, sky.whole()',
        )
    check_weights(weights, pixels)
    bad = (weights > 0) & ~sky.observed
    if bad.any():
        raise DataError(
            f"pixel {int(np.flatnonzero(bad)[0])} has a weight and no value", mend="weights * sky.observed"
        )
    ring = np.concatenate((np.where(sky.observed, sky.values, 0.0), weights[None]))
    if pixels.nest:
        ring = ring[:, Healpix(pixels.n_side).reordered(np.arange(pixels.n_pix))]
    last = 3 * pixels.n_side - 1 if l_max is None else l_max
    return nmt.NmtField(
        ring[-1], ring[:-1], lmax=last, beam=beam, purify_e="E" in pure, purify_b="B" in pure,
    )  # fmt: skip


def harmonics_of_field(field: nmt.NmtField) -> Harmonics:
    """Return the coefficients of a field of NaMaster and of its mask, of which `pseudo_spectra` are made.

    Parameters
    ----------
    field : NmtField
        Of spin 0 or 2, with maps.
    """
    weights = np.asarray(field.get_mask_alms())
    alm = np.asarray(field.get_alms())
    pure = "E" * bool(getattr(field, "pure_e", False)) + "B" * bool(getattr(field, "pure_b", False))
    return Harmonics(
        alm, "T" if len(alm) == 1 else "EB", np.tile(weights, (len(alm), 1)), _last(alm.shape[1]),
        _last(len(weights)), pure,
    )  # fmt: skip


def _last(n_alm: int) -> int:
    """Return l_max of a number of coefficients."""
    return round((math.sqrt(8 * n_alm + 1) - 3) / 2)


def namaster_bins(binning: Binning) -> nmt.NmtBin:
    """Return bins as NaMaster's; its fields then have the l_max of the bins."""
    return nmt.NmtBin.from_edges(binning.edges[:-1], binning.edges[1:], is_Dell=binning.of_d)


def binning_of_bins(bins: nmt.NmtBin, of_d: bool = False) -> Binning:
    """Return bins of NaMaster that follow each other with equal weights.

    Parameters
    ----------
    bins : NmtBin
    of_d : bool
        Whether they were made with ``is_Dell``, which NaMaster does not tell.

    Raises
    ------
    ConfigError
        If there are gaps between bins, or weights differ.
    """
    lists = [np.asarray(bins.get_ell_list(number)) for number in range(bins.get_n_bands())]
    edges = np.array([lists[0][0], *(one[-1] + 1 for one in lists)])
    whole = all(
        len(one) == stop - start for one, start, stop in zip(lists, edges[:-1], edges[1:], strict=True)
    )
    weights = [np.asarray(bins.get_weight_list(number)) for number in range(len(lists))]
    if not whole or any(np.ptp(one) > 1e-12 * one.max() for one in weights):
        raise ConfigError(
            "bins with gaps or weights of their own are none of petamap's", mend="NmtBin.from_edges"
        )
    return Binning(edges, of_d)


def namaster_workspace(
    first: nmt.NmtField, second: nmt.NmtField, binning: Binning, coupling: Coupling | None = None
) -> nmt.NmtWorkspace:
    """Return a workspace of two fields, with petamap's coupling in the place of NaMaster's if one is given.

    Parameters
    ----------
    first, second : NmtField
        Of the l_max of the bins.
    binning : Binning
    coupling : Coupling, optional
        To the l_max of the bins at least, without pure components; as of `petamap.spectra.coupling`.

    Raises
    ------
    ConfigError
        If the coupling is of pure components.
    """
    workspace = nmt.NmtWorkspace.from_fields(first, second, namaster_bins(binning))
    if coupling is None:
        return workspace
    if any(coupling.pure):
        raise ConfigError("couplings of pure components are ordered differently", mend="leave coupling away")
    names = _SPECTRA["TE"[first.spin != 0] + "TE"[second.spin != 0]]
    n_l, n = binning.l_max + 1, len(names)
    matrix = np.zeros((n_l, n, n_l, n))
    for i, pseudo in enumerate(names):
        for j, true in enumerate(names):
            block = coupling.block(pseudo, true, names)
            if block is not None:
                matrix[:, i, :, j] = block[:n_l, :n_l]
    workspace.update_coupling_matrix(matrix.reshape(n_l * n, n_l * n))
    return workspace


def coupling_of_workspaces(**workspaces: nmt.NmtWorkspace) -> Coupling:
    """Return the couplings of workspaces, 0 for those that are not given.

    Parameters
    ----------
    **workspaces : NmtWorkspace
        By their first spectrum, ``TT=, TE=, ET=, EE=``; of one l_max, without pure components.

    Raises
    ------
    ConfigError
        If they end at different multipoles, or are of other spins.
    """
    found: dict[str, FloatArray] = {}
    for first, one in workspaces.items():
        n = _check_spins(one, first)
        matrix = np.asarray(one.get_coupling_matrix())
        blocks = matrix.reshape(len(matrix) // n, n, len(matrix) // n, n)
        found.update({kind: blocks[:, 0, :, -1 if kind == "--" else 0] for kind in _KINDS[first]})
    sizes = {len(one) for one in found.values()}
    if len(sizes) != 1:
        raise ConfigError(f"workspaces of {len(sizes)} different l_max")
    none = np.zeros((size := sizes.pop(), size))
    return Coupling(np.stack([found.get(kind, none) for kind in KINDS]))


def _check_spins(workspace: nmt.NmtWorkspace, first: str) -> int:
    """Return the number of spectra of a workspace, which must be that of the spins of its first."""
    require_known("no spectrum", first, _SPECTRA)
    n = int(np.shape(workspace.get_bandpower_windows())[0])
    if n != len(_SPECTRA[first]):
        raise ConfigError(
            f"a workspace of {n} spectra is not of {', '.join(_SPECTRA[first])}", mend="is_teb=False"
        )
    return n


def bandpowers_of_workspace(
    workspace: nmt.NmtWorkspace, decoupled: Any, binning: Binning, first: str = "TT", unit: str = "K_CMB^2"
) -> Bandpowers:
    """Return what ``workspace.decouple_cell`` has made, with the bandpower windows of the workspace.

    Parameters
    ----------
    workspace : NmtWorkspace
        Of spins 0 and 2.
    decoupled : array (n_spectra, n_bins)
    binning : Binning
        `binning_of_bins` of the bins of the workspace.
    first : {"TT", "TE", "ET", "EE"}
        First spectrum, which says the spins.
    unit : str
        Of the values.

    Raises
    ------
    DataError
        If the numbers of spectra or bins do not match.
    ConfigError
        If the workspace is of other spins.
    """
    _check_spins(workspace, first)
    names = _SPECTRA[first]
    values = np.asarray(decoupled, np.float64)
    windows = np.asarray(workspace.get_bandpower_windows())
    if values.shape != (len(names), binning.n) or windows.shape[:2] != values.shape:
        raise DataError(
            f"values {values.shape}, windows {windows.shape}, {binning.n} bins of {', '.join(names)}",
            mend="give what decouple_cell of this workspace has made, and its bins",
        )
    return Bandpowers(values, names, binning, unit, None, windows)
