"""Staggered fermions on a periodic lattice: the operator, and conjugate gradients on the even sites.

With the phases eta_mu(x) = (-1)^(x_0 + ... + x_(mu - 1)) and links U_mu(x) in SU(3), the operator hops
``(D v)(x) = 1/2 sum over mu of eta_mu(x) [U_mu(x) v(x + mu) - U_mu(x - mu)^+ v(x - mu)]``, from a parity to
the other. D is anti-Hermitian, so m^2 - D^2 is positive on the sites of one parity (Kogut and Susskind 1975).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConvergenceError
from petacomm.base.exact import add_exactly, no_limbs, rounded
from petacomm.base.typing import AnyArray, ComplexArray, FloatArray, Int64Array
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution._redistribution import hop_sites
from petacomm.redistribution.array_layout import DatatypeError
from petacomm.redistribution.halo import Field
from petacomm.redistribution.lattice import N_PARITIES, Lattice

EVEN, ODD = 0, 1


class Staggered:
    """The operator m^2 - D^2 on the even sites. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    lattice : Lattice
    links : complex128 (n_axes, n_sites, 3, 3)
        U_mu(x) of this rank's sites, in the order of the lattice.
    mass : float
    way : str
        Of the halos, as for a `Field`.
    n_threads : int

    Raises
    ------
    DatatypeError
        On all ranks, if the links do not fit the lattice.
    """

    def __init__(
        self,
        comm: Communicator,
        lattice: Lattice,
        links: ComplexArray,
        mass: float,
        way: str = "auto",
        n_threads: int = 1,
    ) -> None:
        self.comm, self.lattice, self.mass, self.n_threads = comm, lattice, mass, n_threads
        expected = (len(lattice.shape), lattice.n_sites, 3, 3)
        fault = None
        if getattr(links, "shape", None) != expected or links.dtype != np.complex128:
            fault = DatatypeError(
                f"links of shape {getattr(links, 'shape', None)}, not complex128 {expected}",
                where=f"rank {comm.rank}",
            )
        agree(comm, fault)
        self._links = self._both_ways(links, way)
        self._fields = [Field(comm, lattice, "vector", np.complex128, way) for _ in range(N_PARITIES)]
        self._inner = [lattice.inner(parity) for parity in range(N_PARITIES)]
        self._outer = [lattice.outer(parity) for parity in range(N_PARITIES)]

    @property
    def chosen(self) -> str | None:
        """The way of the halos."""
        return self._fields[0].chosen

    def apply(self, vector: ComplexArray, out: ComplexArray) -> None:
        """Fill `out` with (m^2 - D^2) vector, both complex128 (n_even, 3). Collective."""
        even, odd = (field.values for field in self._fields)
        even[self.lattice.sites(EVEN)] = vector
        self._hop(self._fields[EVEN], EVEN, odd)
        hopped = self._room
        self._hop(self._fields[ODD], ODD, hopped)
        np.multiply(vector, self.mass**2, out=out)
        out -= hopped[self.lattice.sites(EVEN)]

    def _hop(self, field: Field, parity: int, out: ComplexArray) -> None:
        """Fill the other parity of `out` with D times the field on this one; inner sites hop meanwhile."""
        to = 1 - parity
        field.start(parity)
        self._sum(self._inner[to], field.values, out)
        field.wait()
        self._sum(self._outer[to], field.values, out)

    def _sum(self, sites: AnyArray, values: ComplexArray, out: ComplexArray) -> None:
        neighbours = self.lattice.neighbours
        hop_sites(self._links, neighbours, values.view(float), sites, out.view(float), self.n_threads)

    def _both_ways(self, links: ComplexArray, way: str) -> FloatArray:
        """Return what multiplies each neighbour of each site, float64 (n_sites, n_directions, 18)."""
        lattice = self.lattice
        n_sites = lattice.n_sites
        self._room = np.zeros((n_sites, 3), np.complex128)
        both = np.empty((n_sites, len(lattice.directions), 3, 3), np.complex128)
        field = Field(self.comm, lattice, "matrix", np.complex128, way)
        for axis in range(len(lattice.shape)):
            half = (0.5 * self._phases(axis))[:, None, None]
            field.values[:n_sites] = links[axis].reshape(n_sites, 9)
            for parity in range(N_PARITIES):
                field.exchange(parity)
            behind = field.values[lattice.neighbours[:, 2 * axis + 1]].reshape(n_sites, 3, 3)
            both[:, 2 * axis] = half * links[axis]
            both[:, 2 * axis + 1] = -half * behind.conj().transpose(0, 2, 1)
        return both.reshape(n_sites, -1, 9).view(np.float64)

    def _phases(self, axis: int) -> Int64Array:
        """Return eta of each site, in the order of the lattice."""
        lattice = self.lattice
        box = lattice.layout.box(lattice.rank)
        before = [np.arange(part.start, part.stop) if i < axis else np.zeros(part.stop - part.start, int)
                  for i, part in enumerate(box)]  # fmt: skip
        phases = np.empty(lattice.n_sites, np.int64)
        phases[lattice.index] = 1 - 2 * (sum(np.ix_(*before), np.zeros((), np.int64)) % 2)
        return phases


@dataclass(frozen=True)
class Solved:
    """What conjugate gradients found.

    Attributes
    ----------
    vector : complex128 (n_even, 3)
    residuals : list of float
        Of each iteration, relative to the right-hand side; the first is 1.
    """

    vector: ComplexArray
    residuals: list[float]


def solve(operator: Staggered, right: ComplexArray, tolerance: float = 1e-10, most: int = 1000) -> Solved:
    """Solve (m^2 - D^2) x = right on the even sites by conjugate gradients. Collective.

    Dot products are exact and each site has its sums in one order: bits do not depend on ranks, grid or way.

    Parameters
    ----------
    operator : Staggered
    right : complex128 (n_even, 3)
    tolerance : float
        Of the residual, relative to `right`.
    most : int
        Iterations.

    Raises
    ------
    ConvergenceError
        On all ranks, if `most` do not suffice.
    """
    comm = operator.comm
    x, residual = np.zeros_like(right), right.copy()
    direction, product = residual.copy(), np.empty_like(residual)
    size = begin = _dot(comm, residual, residual)
    history = [1.0]
    while begin > 0 and history[-1] > tolerance:
        if len(history) > most:
            raise ConvergenceError(f"a residual of {history[-1]:.2g} after {most} iterations")
        operator.apply(direction, product)
        step = size / _dot(comm, direction, product)
        x += step * direction
        residual -= step * product
        before, size = size, _dot(comm, residual, residual)
        direction *= size / before
        direction += residual
        history.append(math.sqrt(size / begin))
    return Solved(x, history)


def _dot(comm: Communicator, a: ComplexArray, b: ComplexArray) -> float:
    """Return the real part of a dot product over all ranks: of the products, the exact sum."""
    limbs = no_limbs()
    add_exactly(a.view(np.float64) * b.view(np.float64), limbs)
    return rounded(comm.allreduce(limbs))
