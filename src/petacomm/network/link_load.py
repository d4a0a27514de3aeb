"""Exact loads of the links of a torus or mesh: how many bytes of a traffic cross each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.topology import Torus

ROUTINGS = ("dimension-ordered", "all-orders", "adaptive")
TIES = ("split", "plus", "parity")


@dataclass(frozen=True)
class Traffic:
    """Bytes between pairs of nodes; pairs that are not named send nothing.

    Attributes
    ----------
    source, destination : int (n,)
        Nodes. What a node sends to itself loads no link.
    n_bytes : (n,) or number
    """

    source: npt.ArrayLike
    destination: npt.ArrayLike
    n_bytes: npt.ArrayLike


def dense(matrix: npt.ArrayLike) -> Traffic:
    """Return the traffic of a matrix (n_nodes, n_nodes): bytes from each node, a row, to each other one."""
    values = np.asarray(matrix, np.float64)
    source, destination = np.nonzero(values)
    return Traffic(source, destination, values[source, destination])


def link_loads(
    grid: Torus, traffic: Traffic | float, routing: str = "dimension-ordered", tie: str = "split"
) -> FloatArray:
    """Return the bytes that cross each link.

    Parameters
    ----------
    grid : Torus
    traffic : Traffic or float
        A number is an all-to-all of so many bytes from each node to each other one. Its loads come from one
        line of each dimension and take no longer for many nodes.
    routing : str
        ``dimension-ordered``: dimension 0 first. ``all-orders``: spread evenly over all orders of the
        dimensions. ``adaptive``: spread evenly over all shortest ways.
    tie : str
        Bytes that go half round a ring: ``split`` over both ways; ``plus``, all one way; by ``parity``: one
        way from even coordinates of that dimension, the other from odd ones.

    Returns
    -------
    float64 (grid.n_links,)

    Raises
    ------
    ConfigError
        If the routing or the tie is unknown, or the traffic does not fit the grid.
    """
    for name, value, known in (("routing", routing, ROUTINGS), ("tie", tie, TIES)):
        if value not in known:
            raise ConfigError(f"unknown {name} '{value}'", mend=did_you_mean(value, list(known)))
    if not isinstance(traffic, Traffic):
        return _uniform(grid, float(traffic), routing, tie)
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    for source, steps, weights in _one_way(grid, *_checked(grid, traffic), tie):
        if routing == "adaptive":
            _add_adaptive(grid, source, steps, weights, table)
        else:
            _add_ordered(grid, source, steps, weights, routing, table)
    return _by_link(grid, table)


def loads_of_ways(
    grid: Torus, source: npt.ArrayLike, steps: npt.ArrayLike, n_bytes: npt.ArrayLike
) -> FloatArray:
    """Return the bytes that cross each link, of ways that are said: dimension 0 first.

    Parameters
    ----------
    grid : Torus
    source : int (n,)
    steps : int (n, n_dimensions)
        Signed, at most once round a ring.
    n_bytes : (n,)

    Returns
    -------
    float64 (grid.n_links,)
    """
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    weights = np.asarray(n_bytes, np.float64)
    _add_ordered(grid, np.asarray(source, np.int64), np.asarray(steps), weights, "dimension-ordered", table)
    return _by_link(grid, table)


def _checked(grid: Torus, traffic: Traffic) -> tuple[Int64Array, Int64Array, FloatArray]:
    source = np.asarray(traffic.source, np.int64).ravel()
    destination = np.asarray(traffic.destination, np.int64).ravel()
    if len(source) != len(destination):
        raise ConfigError(f"{len(source)} sources and {len(destination)} destinations", mend="give pairs")
    n_bytes = np.broadcast_to(np.asarray(traffic.n_bytes, np.float64), source.shape)
    for nodes in (source, destination):
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= grid.n_nodes):
            raise ConfigError(f"a node of the traffic is not among the {grid.n_nodes} of {grid}", mend=None)
    if not np.all(np.isfinite(n_bytes) & (n_bytes >= 0)):
        raise ConfigError("bytes of the traffic are negative or not finite", mend="give 0 or more")
    return source, destination, n_bytes


def _one_way(
    grid: Torus, source: Int64Array, destination: Int64Array, n_bytes: FloatArray, tie: str
) -> Iterator[tuple[Int64Array, Int64Array, FloatArray]]:
    """Yield sources, signed steps and bytes with each half ring decided; split pairs come several times."""
    steps = grid.displacement(source, destination)
    shape = np.array(grid.shape)
    halves = (2 * steps == shape) & np.array(grid.wrap)
    if tie == "parity":
        steps = np.where(halves & (grid.coordinates(source) % 2 == 1), -steps, steps)
    if tie != "split":
        yield source, steps, n_bytes
        return
    for turned in product((False, True), repeat=grid.n_dimensions):
        # Of a pair with t ties 2^t of the 2^d choices are its own.
        chosen = np.array(turned)
        fits: BoolArray = ~(chosen & ~halves).any(-1)
        if fits.any():
            ways = np.where(chosen, -steps, steps)[fits]
            yield source[fits], ways, n_bytes[fits] / 2.0 ** halves[fits].sum(-1)


def _add_ordered(
    grid: Torus, source: Int64Array, steps: Int64Array, weights: FloatArray, routing: str, table: FloatArray
) -> None:
    """Add the loads of ways that cross one dimension after the other."""
    places = grid.coordinates(source)
    n = grid.n_dimensions
    for dimension in range(n):
        others = [d for d in range(n) if d != dimension]
        if routing == "dimension-ordered":
            subsets: list[tuple[tuple[int, ...], float]] = [(tuple(range(dimension)), 1.0)]
        else:
            # Of the n! orders of dimensions, s! (n - 1 - s)! have just a given set of s before this one.
            subsets = [
                (done, math.factorial(s) * math.factorial(n - 1 - s) / math.factorial(n))
                for s in range(n)
                for done in combinations(others, s)
            ]
        for done, share in subsets:
            at = places.copy()
            for d in done:
                at[:, d] = (at[:, d] + steps[:, d]) % grid.shape[d]
            _add_lines(grid, at, steps[:, dimension], share * weights, dimension, table)


def _add_lines(
    grid: Torus, at: Int64Array, steps: Int64Array, weights: FloatArray, dimension: int, table: FloatArray
) -> None:
    """Add straight ways along one dimension: a step up where each begins, down where it ends, then sums."""
    size = grid.shape[dimension]
    for column, sign in enumerate((1, -1)):
        here = steps * sign > 0
        if not here.any():
            continue
        # In direction -1 positions count down, so that both directions run upwards.
        start = at[here, dimension] if sign > 0 else size - 1 - at[here, dimension]
        length = np.abs(steps[here])
        base = at[here]
        base[:, dimension] = 0
        row = np.ravel_multi_index(tuple(base.T), grid.shape)
        # Rows of a line of twice the size: what goes over the seam is folded back.
        lines, row = np.unique(row, return_inverse=True)
        change = np.bincount(row * (2 * size + 1) + start, weights[here], len(lines) * (2 * size + 1))
        change -= np.bincount(row * (2 * size + 1) + start + length, weights[here], len(change))
        # What rounding leaves below zero, beyond the end of all ways, is none.
        loads = np.maximum(np.cumsum(change.reshape(len(lines), -1), axis=1), 0.0)
        folded = loads[:, :size] + loads[:, size : 2 * size]
        target = np.moveaxis(table[dimension, column], dimension, -1)
        index = np.unravel_index(lines, grid.shape)
        others = tuple(index[d] for d in range(grid.n_dimensions) if d != dimension)
        target[others] += (folded if sign > 0 else folded[:, ::-1]).reshape(target[others].shape)


def _add_adaptive(
    grid: Torus, source: Int64Array, steps: Int64Array, weights: FloatArray, table: FloatArray
) -> None:
    """Add the loads of all shortest ways, evenly: for each distinct displacement, sources * probabilities.

    The product is a convolution round the grid; its sum over displacements is made of Fourier coefficients.
    """
    distinct, group = np.unique(steps, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(distinct) + 1))
    sums = _Spectra(grid)
    for index, step in enumerate(distinct):
        members = order[bounds[index] : bounds[index + 1]]
        there = np.bincount(source[members], weights[members], grid.n_nodes).reshape(grid.shape)
        sums.add(np.fft.rfftn(there), step)
    sums.into(table)


class _Spectra:
    """Loads as Fourier coefficients, dimension and direction by themselves."""

    def __init__(self, grid: Torus) -> None:
        self.grid = grid
        axes = np.meshgrid(*(np.arange(size) for size in grid.shape), indexing="ij")
        total = sum(axes)
        factorials = np.array([math.lgamma(k + 1) for k in range(int(np.max(total)) + 1)])
        # log of the number of ways to a place: (a + b + ...)! / (a! b! ...)
        self._ways = factorials[total] - sum(factorials[axis] for axis in axes)
        self._sums: dict[tuple[int, int], npt.NDArray[np.complex128]] = {}

    def add(self, sources: npt.NDArray[np.complex128], step: Int64Array) -> None:
        """Add what goes from these sources (their transform) by one displacement."""
        length = np.abs(step)
        for dimension in np.flatnonzero(step):
            box = tuple(slice(0, n + 1 - (d == dimension)) for d, n in enumerate(length))
            ways = self._ways[box]
            # Ways to the start of a link, times ways from its end, of all ways.
            share = np.exp(ways + np.flip(ways) - self._ways[tuple(length)])
            kernel = np.zeros(self.grid.shape)
            index = np.ix_(
                *((np.arange(n) * (1 if s >= 0 else -1)) for n, s in zip(share.shape, step, strict=True))
            )
            kernel[index] = share
            key = (int(dimension), int(step[dimension] < 0))
            term = sources * np.fft.rfftn(kernel)
            self._sums[key] = self._sums[key] + term if key in self._sums else term

    def into(self, table: FloatArray) -> None:
        """Add the loads themselves; what rounding leaves below zero is none."""
        for key, spectrum in self._sums.items():
            axes = tuple(range(self.grid.n_dimensions))
            loads = np.fft.irfftn(spectrum, self.grid.shape, axes)
            table[key] += np.where(loads < 1e-12 * np.abs(loads).max(), 0.0, loads)


def _uniform(grid: Torus, n_bytes: float, routing: str, tie: str) -> FloatArray:
    """Return the loads of an all-to-all.

    Along a line, all orders of the dimensions give what the line's own all-to-all gives, times the lines'
    pairs: N / n_d.
    """
    if not (math.isfinite(n_bytes) and n_bytes >= 0):
        raise ConfigError(f"an all-to-all of {n_bytes} bytes", mend="give 0 or more")
    if routing == "adaptive":
        return _by_link(grid, n_bytes * _uniform_adaptive(grid, tie))
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    for dimension, (size, ring) in enumerate(zip(grid.shape, grid.wrap, strict=True)):
        line = Torus((size,), ring)
        of_line = np.zeros((1, 2, size))
        for source, steps, weights in _line_pairs(line, n_bytes * grid.n_nodes / size, tie):
            _add_ordered(line, source, steps, weights, "dimension-ordered", of_line)
        for column in range(2):
            target = np.moveaxis(table[dimension, column], dimension, -1)
            target[...] = of_line[0, column]
    return _by_link(grid, table)


def _line_pairs(line: Torus, weight: float, tie: str) -> Iterator[tuple[Int64Array, Int64Array, FloatArray]]:
    a, b = np.divmod(np.arange(line.n_nodes**2), line.n_nodes)
    return _one_way(line, a, b, np.full(len(a), weight), tie)


def _uniform_adaptive(grid: Torus, tie: str) -> FloatArray:
    """Return the loads of an all-to-all of one byte over all shortest ways, as a table.

    Of the ways by p, q steps before and behind a link (p_i, q_i in dimension i, sums P and Q), a share of
    P! Q! / (P + Q + 1)! times a product over dimensions lies on it. That ratio is the integral of
    u^P (1 - u)^Q from 0 to 1, so for each u the sum over all pairs of nodes is a product of sums along lines,
    and the integral, of a polynomial in u, is one of Gauss.
    """
    reach = sum(size // 2 if ring else size - 1 for size, ring in zip(grid.shape, grid.wrap, strict=True))
    points, weights = np.polynomial.legendre.leggauss(reach // 2 + 1)
    along = [
        _passages(Torus((size,), ring), tie, (1 + points) / 2)
        for size, ring in zip(grid.shape, grid.wrap, strict=True)
    ]
    table = np.zeros((grid.n_dimensions, 2, *grid.shape))
    for k, weight in enumerate(weights / 2):
        for dimension, column in product(range(grid.n_dimensions), range(2)):
            factors = [passages[column if d == dimension else 2, :, k] for d, passages in enumerate(along)]
            table[dimension, column] += weight * reduce(np.multiply.outer, factors)
    return table


def _passages(line: Torus, tie: str, u: FloatArray) -> FloatArray:
    """Return the sums along a line, by place, of pairs whose ways go up from there, go down, or pass.

    Returns
    -------
    float64 (3, n_nodes, len(u))
        Of a pair s steps apart, p of them before the place: s! / (p! q!) u^p (1 - u)^q, where p + q are s for
        what passes, and s - 1 for what goes on by the line's own link.
    """
    size = line.n_nodes
    out = np.zeros((3, size, len(u)))
    for source, steps, weights in _line_pairs(line, 1.0, tie):
        step = steps[:, 0]
        for length in range(int(np.abs(step).max()) + 1):
            rows = np.flatnonzero(np.abs(step) == length)
            sign = np.where(step[rows] < 0, -1, 1)
            for p in range(length + 1):
                place = (source[rows] + sign * p) % size
                passing = math.comb(length, p) * u**p * (1 - u) ** (length - p)
                out[2] += np.bincount(place, weights[rows], size)[:, None] * passing
                if p == length:
                    continue
                leaving = length * math.comb(length - 1, p) * u**p * (1 - u) ** (length - 1 - p)
                for column, direction in enumerate((1, -1)):
                    share = weights[rows] * (sign == direction)
                    out[column] += np.bincount(place, share, size)[:, None] * leaving
    return out


def _by_link(grid: Torus, table: FloatArray) -> FloatArray:
    """Return the loads by number of link, of a table by dimension, direction and node."""
    loads = np.zeros(grid.n_links)
    nodes = np.arange(grid.n_nodes)
    for dimension in range(grid.n_dimensions):
        for column, direction in enumerate((1, -1)):
            links = grid.link(nodes, dimension, direction)
            loads[links[links >= 0]] = table[dimension, column].ravel()[links >= 0]
    return loads
