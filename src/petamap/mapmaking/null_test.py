"""Null tests: whether the maps of the parts of the data are one map.

A sample that its part cannot be solved for in is a gap in both models. That of a map for each part contains
that of one map for all: with the unknowns x_s and x_c of both (maps, gaps and amplitudes of templates), R x_c
are the unknowns of the larger model that mean the same data.
The difference of their chi-squared at the best fits,

    chi2(R x_c) - chi2(x_s) = d^T (b_s - A_s R x_c),   d = x_s - R x_c,   A_s d = b_s - A_s R x_c,

is the likelihood ratio of nested linear models (Wilks 1938, Ann. Math. Stat. 9, 60): under Gaussian noise and
one sky it is drawn from a chi-squared distribution, with as many degrees of freedom as the larger model has
more unknowns. It is computed as that product, never as a difference of chi-squared, each of which grows with
the signal. What solvers leave of x_c and d enters in second order, as d is A_s-orthogonal to all R x.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.exact import round_limbs
from petamap.data.run_summary import NullTest
from petamap.mapmaking.linear_operators import Operator, exact_dots
from petamap.mapmaking.system import MapmakingSystem, common_pixels
from petamap.mapmaking.vectors import Unknowns, stack


def common_unknowns(common: MapmakingSystem, parts: MapmakingSystem, solution: Unknowns) -> Unknowns:
    """Return R x: the unknowns of the maps of parts that mean the same data as those of one map. Collective.

    Parameters
    ----------
    common, parts : MapmakingSystem
        With the same gaps.
    solution : Unknowns
        Of `common`, at the owners.
    """
    pixels = common_pixels(common, parts.projection, parts.shared.pixels, solution.pixels).copy()
    pixels[parts.statistics.unsolved] = 0.0
    # the same gaps and amplitudes have the same rows
    rows = parts.shared.gaps.select_owned(common.shared.gaps.scatter_fwd(solution.gaps)).copy()
    found = Unknowns(pixels, rows)
    return parts.shared.with_ghosts(found) if parts.shared.keeps_ghosts else found


def residual_of(operator: Operator, rhs: Unknowns, start: Unknowns) -> Unknowns:
    """Return b - A x. Collective."""
    product = operator.apply(stack([start]))
    return Unknowns(*(b - q[..., 0] for b, q in zip(rhs, product, strict=True)))


def null_test(
    common: MapmakingSystem,
    parts: MapmakingSystem,
    residual: Unknowns,
    difference: Unknowns,
    error: float,
) -> NullTest:
    """Return the null test of the parts. Collective.

    Parameters
    ----------
    common, parts : MapmakingSystem
        With the same gaps.
    residual, difference : Unknowns
        b_s - A_s R x_c, and d.
    error : float
        Sum of the squared bounds of the errors of x_c and d, in units of the noise.
    """
    from scipy import stats

    limbs = parts.comm.allreduce(exact_dots(stack([difference]), stack([residual])))
    value = round_limbs(limbs[0])
    n_solved = [
        system.comm.sum(int(np.count_nonzero(~system.statistics.unsolved))) for system in (common, parts)
    ]
    dof = parts.projection.stokes.n * (n_solved[1] - n_solved[0])
    return NullTest(
        chi_squared=value,
        degrees_of_freedom=dof,
        probability=float(stats.chi2.sf(value, dof)) if dof > 0 else 1.0,
        error_bound=error if np.isfinite(error) else None,
    )
