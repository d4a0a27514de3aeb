"""Exact link loads of a torus or mesh: the bytes of a traffic pattern on each link."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import real_array, require_instance, require_real, whole_array
from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.topology import Torus

T = TypeVar("T", bound=np.generic)

ROUTINGS = ("dimension-ordered", "all-orders", "adaptive")
TIES = ("split", "plus", "parity")


@dataclass(frozen=True)
class Traffic:
    """Bytes between pairs of nodes; a sparse traffic matrix.

    Attributes
    ----------
    source, destination : int (n,)
        Nodes. Traffic of a node to itself loads no link.
    n_bytes : (n,) or number
    """

    source: npt.ArrayLike
    destination: npt.ArrayLike
    n_bytes: npt.ArrayLike


def link_loads(
    grid: Torus, traffic: Traffic | float, routing: str = "dimension-ordered", tie: str = "split"
) -> FloatArray:
    """Return the bytes on each link.

    Parameters
    ----------
    grid : Torus
    traffic : Traffic or float
        A number is an all-to-all of so many bytes from each node to each other one. Its loads are computed
        from one line of each dimension, independently of the number of lines.
    routing : str
        ``dimension-ordered``: dimension 0 first. ``all-orders``: spread evenly over all orders of the
        dimensions. ``adaptive``: spread evenly over all shortest routes.
    tie : str
        Routing of messages over half a ring: ``split`` between both directions; ``plus``, all upwards; by
        ``parity``: upwards from even coordinates of that dimension, downwards from odd ones.

    Returns
    -------
    float64 (grid.n_links,)

    Raises
    ------
    ConfigError
        If the routing or the tie is unknown, or the traffic does not fit the grid.

    Examples
    --------
    >>> import petacomm
    >>> loads = petacomm.link_loads(petacomm.Torus((8,)), 100.0)
    >>> float(loads.max())
    800.0
    """
    require_known("unknown routing", routing, ROUTINGS)
    require_known("unknown tie", tie, TIES)
    require_instance(grid, "grid", Torus, 'give a Torus: of switches "petacomm net" predicts')
    if not isinstance(traffic, Traffic):
        return _uniform(grid, require_real(traffic, "traffic", -1e300, 1e300), routing, tie)
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    for source, steps, weights in _resolve_ties(grid, *_checked(grid, traffic), tie):
        if routing == "adaptive":
            _add_adaptive(grid, source, steps, weights, table)
        else:
            _add_ordered(grid, source, steps, weights, routing, table)
    return values_by_link(grid, table)


def displacement_loads(
    grid: Torus, source: npt.ArrayLike, steps: npt.ArrayLike, n_bytes: npt.ArrayLike
) -> FloatArray:
    """Return the bytes on each link for messages with given displacements, routed with dimension 0 first.

    Parameters
    ----------
    grid : Torus
    source : int (n,)
    steps : int (n, n_dimensions)
        Signed number of links in each dimension, at most once around a ring.
    n_bytes : (n,)

    Returns
    -------
    float64 (grid.n_links,)
    """
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    weights = np.asarray(n_bytes, np.float64)
    _add_ordered(grid, np.asarray(source, np.int64), np.asarray(steps), weights, "dimension-ordered", table)
    return values_by_link(grid, table)


def _checked(grid: Torus, traffic: Traffic) -> tuple[Int64Array, Int64Array, FloatArray]:
    source = whole_array(traffic.source, "source").ravel()
    destination = whole_array(traffic.destination, "destination").ravel()
    if len(source) != len(destination):
        raise ConfigError(f"{len(source)} sources and {len(destination)} destinations", mend="give pairs")
    n_bytes = bytes_of_pairs(traffic, len(source))
    for nodes in (source, destination):
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= grid.n_nodes):
            raise ConfigError(f"a node of the traffic is not among the {grid.n_nodes} of {grid}", mend=None)
    return source, destination, n_bytes


def bytes_of_pairs(traffic: Traffic, n_pairs: int) -> FloatArray:
    """Return the bytes of each pair of nodes: float64 (n_pairs,).

    Raises
    ------
    ConfigError
        If there are neither as many numbers nor one for all, or one is negative or not finite.
    """
    given = real_array(traffic.n_bytes, "n_bytes").ravel()
    if len(given) not in (1, n_pairs):
        raise ConfigError(f"{len(given)} sizes for {n_pairs} pairs of nodes", mend="give one for each")
    if not np.all(np.isfinite(given) & (given >= 0)):
        raise ConfigError("bytes of the traffic are negative or not finite", mend="give 0 or more")
    return np.broadcast_to(given, (n_pairs,))


def _resolve_ties(
    grid: Torus, source: Int64Array, destination: Int64Array, n_bytes: FloatArray, tie: str
) -> Iterator[tuple[Int64Array, Int64Array, FloatArray]]:
    """Yield sources, signed steps and bytes, with a direction for each half ring; split pairs repeat."""
    steps = grid.displacement(source, destination)
    shape = np.array(grid.shape)
    halves = (2 * steps == shape) & np.array(grid.wrap)
    if tie == "parity":
        steps = np.where(halves & (grid.coordinates(source) % 2 == 1), -steps, steps)
    if tie != "split":
        yield source, steps, n_bytes
        return
    for choice in product((False, True), repeat=grid.n_dimensions):
        # A pair with t ties uses 2^t of the 2^d choices of reversed dimensions.
        reverse = np.array(choice)
        fits: BoolArray = ~(reverse & ~halves).any(-1)
        if fits.any():
            directed = np.where(reverse, -steps, steps)[fits]
            yield source[fits], directed, n_bytes[fits] / 2.0 ** halves[fits].sum(-1)


def _add_ordered(
    grid: Torus, source: Int64Array, steps: Int64Array, weights: FloatArray, routing: str, table: FloatArray
) -> None:
    """Add the loads of routes that take one dimension after the other."""
    coordinates = grid.coordinates(source)
    n = grid.n_dimensions
    for dimension in range(n):
        others = [d for d in range(n) if d != dimension]
        if routing == "dimension-ordered":
            subsets: list[tuple[tuple[int, ...], float]] = [(tuple(range(dimension)), 1.0)]
        else:
            # In s! (n - 1 - s)! of the n! orders, a given set of s dimensions comes before this one.
            subsets = [
                (done, math.factorial(s) * math.factorial(n - 1 - s) / math.factorial(n))
                for s in range(n)
                for done in combinations(others, s)
            ]
        for done, share in subsets:
            corner = coordinates.copy()
            for d in done:
                corner[:, d] = (corner[:, d] + steps[:, d]) % grid.shape[d]
            _add_lines(grid, corner, steps[:, dimension], share * weights, dimension, table)


def _add_lines(
    grid: Torus, corner: Int64Array, steps: Int64Array, weights: FloatArray, dimension: int, table: FloatArray
) -> None:
    """Add straight routes along one dimension: the cumulative sum of their begins minus their ends."""
    size = grid.shape[dimension]
    for column, sign in enumerate((1, -1)):
        selected = steps * sign > 0
        if not selected.any():
            continue
        # For direction -1 positions are reversed, so that all routes run upwards.
        start = corner[selected, dimension] if sign > 0 else size - 1 - corner[selected, dimension]
        length = np.abs(steps[selected])
        base = corner[selected]
        base[:, dimension] = 0
        row = np.ravel_multi_index(tuple(base.T), grid.shape)
        # Lines have twice their size; the second half, beyond the wrap-around, is added to the first.
        lines, row = np.unique(row, return_inverse=True)
        change = np.bincount(row * (2 * size + 1) + start, weights[selected], len(lines) * (2 * size + 1))
        change -= np.bincount(row * (2 * size + 1) + start + length, weights[selected], len(change))
        # Rounding may leave loads slightly below zero beyond the ends of all routes.
        loads = np.maximum(np.cumsum(change.reshape(len(lines), -1), axis=1), 0.0)
        folded = loads[:, :size] + loads[:, size : 2 * size]
        target = np.moveaxis(table[dimension, column], dimension, -1)
        index = np.unravel_index(lines, grid.shape)
        others = tuple(index[d] for d in range(grid.n_dimensions) if d != dimension)
        target[others] += (folded if sign > 0 else folded[:, ::-1]).reshape(target[others].shape)


def _add_adaptive(
    grid: Torus, source: Int64Array, steps: Int64Array, weights: FloatArray, table: FloatArray
) -> None:
    """Add the loads of traffic spread evenly over all shortest routes.

    For each distinct displacement they are the cyclic convolution of the sources with the probabilities of
    the links; the sum over displacements is taken of the Fourier coefficients.
    """
    distinct, group = np.unique(steps, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(distinct) + 1))
    sums = _FourierLoads(grid)
    for index, step in enumerate(distinct):
        members = order[bounds[index] : bounds[index + 1]]
        sources = np.bincount(source[members], weights[members], grid.n_nodes).reshape(grid.shape)
        sums.add(np.fft.rfftn(sources), step)
    sums.add_to(table)


class _FourierLoads:
    """Fourier coefficients of the loads of each dimension and direction."""

    def __init__(self, grid: Torus) -> None:
        self.grid = grid
        axes = np.meshgrid(*(np.arange(size) for size in grid.shape), indexing="ij")
        total = sum(axes)
        factorials = np.array([math.lgamma(k + 1) for k in range(int(np.max(total)) + 1)])
        # Logarithm of the number of shortest routes by (a, b, ...) steps: (a + b + ...)! / (a! b! ...).
        self._log_routes = factorials[total] - sum(factorials[axis] for axis in axes)
        self._sums: dict[tuple[int, int], npt.NDArray[np.complex128]] = {}

    def add(self, sources: npt.NDArray[np.complex128], step: Int64Array) -> None:
        """Add the traffic of one displacement from sources, given by their transform."""
        length = np.abs(step)
        for dimension in np.flatnonzero(step):
            box = tuple(slice(0, n + 1 - (d == dimension)) for d, n in enumerate(length))
            routes = self._log_routes[box]
            # Routes to the start of a link, times routes from its end, divided by all routes.
            share = np.exp(routes + np.flip(routes) - self._log_routes[tuple(length)])
            kernel = np.zeros(self.grid.shape)
            index = np.ix_(
                *((np.arange(n) * (1 if s >= 0 else -1)) for n, s in zip(share.shape, step, strict=True))
            )
            kernel[index] = share
            key = (int(dimension), int(step[dimension] < 0))
            term = sources * np.fft.rfftn(kernel)
            self._sums[key] = self._sums[key] + term if key in self._sums else term

    def add_to(self, table: FloatArray) -> None:
        """Add the loads to a table; values at the level of rounding errors are set to zero."""
        for key, spectrum in self._sums.items():
            axes = tuple(range(self.grid.n_dimensions))
            loads = np.fft.irfftn(spectrum, self.grid.shape, axes)
            table[key] += np.where(loads < 1e-12 * np.abs(loads).max(), 0.0, loads)


def _uniform(grid: Torus, n_bytes: float, routing: str, tie: str) -> FloatArray:
    """Return the loads of an all-to-all.

    For any order of the dimensions, the loads along a line are those of an all-to-all of the line alone,
    times N / n_d.
    """
    if not (math.isfinite(n_bytes) and n_bytes >= 0):
        raise ConfigError(f"an all-to-all of {n_bytes} bytes", mend="give 0 or more")
    if routing == "adaptive":
        return values_by_link(grid, n_bytes * _uniform_adaptive(grid, tie))
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    for dimension, (size, ring) in enumerate(zip(grid.shape, grid.wrap, strict=True)):
        line = Torus((size,), ring)
        line_table = np.zeros((1, 2, size))
        for source, steps, weights in _line_pairs(line, n_bytes * grid.n_nodes / size, tie):
            _add_ordered(line, source, steps, weights, "dimension-ordered", line_table)
        for column in range(2):
            target = np.moveaxis(table[dimension, column], dimension, -1)
            target[...] = line_table[0, column]
    return values_by_link(grid, table)


def _line_pairs(line: Torus, weight: float, tie: str) -> Iterator[tuple[Int64Array, Int64Array, FloatArray]]:
    a, b = np.divmod(np.arange(line.n_nodes**2), line.n_nodes)
    return _resolve_ties(line, a, b, np.full(len(a), weight), tie)


def _uniform_adaptive(grid: Torus, tie: str) -> FloatArray:
    """Return the loads of an all-to-all of one byte over all shortest routes, as a table.

    Of the shortest routes with p_i steps before and q_i steps behind a link in dimension i (sums P and Q),
    the fraction that uses the link is P! Q! / (P + Q + 1)! times a product over dimensions. That ratio is the
    integral of u^P (1 - u)^Q from 0 to 1. For each u the sum over all pairs of nodes is a product of sums
    along lines, and the integral of the polynomial in u is computed exactly by Gauss-Legendre quadrature.
    """
    reach = sum(size // 2 if ring else size - 1 for size, ring in zip(grid.shape, grid.wrap, strict=True))
    points, weights = np.polynomial.legendre.leggauss(reach // 2 + 1)
    line_sums = [
        _line_sums(Torus((size,), ring), tie, (1 + points) / 2)
        for size, ring in zip(grid.shape, grid.wrap, strict=True)
    ]
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    for k, weight in enumerate(weights / 2):
        for dimension, column in product(range(grid.n_dimensions), range(2)):
            factors = [sums[column if d == dimension else 2, :, k] for d, sums in enumerate(line_sums)]
            table[dimension, column] += weight * reduce(np.multiply.outer, factors)
    return table


def _line_sums(line: Torus, tie: str, u: FloatArray) -> FloatArray:
    """Return sums over pairs of nodes of a line whose routes leave a node upwards, downwards, or visit it.

    Returns
    -------
    float64 (3, n_nodes, len(u))
        The term of a pair s steps apart, p of them before the node, is s! / (p! q!) u^p (1 - u)^q, with
        p + q = s for routes that visit the node, and s - 1 for those that leave it by a link of the line.
    """
    size = line.n_nodes
    out = np.zeros((3, size, len(u)))
    for source, steps, weights in _line_pairs(line, 1.0, tie):
        step = steps[:, 0]
        for length in range(int(np.abs(step).max()) + 1):
            rows = np.flatnonzero(np.abs(step) == length)
            sign = np.where(step[rows] < 0, -1, 1)
            for p in range(length + 1):
                node = (source[rows] + sign * p) % size
                visiting = math.comb(length, p) * u**p * (1 - u) ** (length - p)
                out[2] += np.bincount(node, weights[rows], size)[:, None] * visiting
                if p == length:
                    continue
                leaving = length * math.comb(length - 1, p) * u**p * (1 - u) ** (length - 1 - p)
                for column, direction in enumerate((1, -1)):
                    share = weights[rows] * (sign == direction)
                    out[column] += np.bincount(node, share, size)[:, None] * leaving
    return out


def values_by_link(grid: Torus, table: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return values by link number, from a table by dimension, direction and node."""
    values = np.zeros(grid.n_links, table.dtype)
    nodes = np.arange(grid.n_nodes)
    for dimension in range(grid.n_dimensions):
        for column, direction in enumerate((1, -1)):
            links = grid.link(nodes, dimension, direction)
            values[links[links >= 0]] = table[dimension, column].ravel()[links >= 0]
    return values
