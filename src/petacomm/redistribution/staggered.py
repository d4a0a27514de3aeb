"""Staggered fermions on a periodic lattice: the operator, and conjugate gradients on the even sites.

With the phases eta_mu(x) = (-1)^(x_0 + ... + x_(mu - 1)) and links U_mu(x) in SU(3), the operator is
``(D v)(x) = 1/2 sum over mu of eta_mu(x) [U_mu(x) v(x + mu) - U_mu(x - mu)^+ v(x - mu)]``. It maps fields on
one parity to fields on the other. D is anti-Hermitian, so m^2 - D^2 is positive on the sites of one parity
(Kogut and Susskind 1975).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConvergenceError
from petacomm.base.exact import add_exactly, round_limbs, zero_limbs
from petacomm.base.typing import AnyArray, ComplexArray, FloatArray, Int64Array
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution._redistribution import hop_sites
from petacomm.redistribution.array_layout import DatatypeError
from petacomm.redistribution.halo import LatticeField
from petacomm.redistribution.lattice import N_PARITIES, Lattice

EVEN, ODD = 0, 1


class StaggeredOperator:
    """Operator m^2 - D^2 of staggered fermions on the even sites. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    lattice : Lattice
    links : complex128 (n_axes, n_sites, 3, 3)
        U_mu(x) at the sites of this rank, in the order of the lattice.
    mass : float
    method : str
        Method of the halo exchanges, as for a `LatticeField`.
    n_threads : int
        Threads of the local work.

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
        method: str = "auto",
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
        self._links = self._hop_matrices(links, method)
        self._fields = [
            LatticeField(comm, lattice, "vector", np.complex128, method) for _ in range(N_PARITIES)
        ]
        self._inner = [lattice.inner(parity) for parity in range(N_PARITIES)]
        self._boundary = [lattice.boundary(parity) for parity in range(N_PARITIES)]

    @property
    def chosen(self) -> str | None:
        """Name of the method of the halo exchanges; None before "auto" has chosen."""
        return self._fields[0].chosen

    def apply(self, vector: ComplexArray, out: ComplexArray) -> None:
        """Write (m^2 - D^2) vector to `out`, both complex128 (n_even, 3). Collective."""
        even, odd = (field.values for field in self._fields)
        even[self.lattice.sites(EVEN)] = vector
        self._apply_d(self._fields[EVEN], EVEN, odd)
        d_squared = self._work
        self._apply_d(self._fields[ODD], ODD, d_squared)
        np.multiply(vector, self.mass**2, out=out)
        out -= d_squared[self.lattice.sites(EVEN)]

    def _apply_d(self, field: LatticeField, parity: int, out: ComplexArray) -> None:
        """Write D times the field on a parity to the other parity of `out`; the halo overlaps inner sites."""
        to = 1 - parity
        field.start(parity)
        self._sum_neighbours(self._inner[to], field.values, out)
        field.wait()
        self._sum_neighbours(self._boundary[to], field.values, out)

    def _sum_neighbours(self, sites: AnyArray, values: ComplexArray, out: ComplexArray) -> None:
        neighbours = self.lattice.neighbours
        hop_sites(self._links, neighbours, values.view(float), sites, out.view(float), self.n_threads)

    def _hop_matrices(self, links: ComplexArray, method: str) -> FloatArray:
        """Return the matrix of each neighbour of each site, float64 (n_sites, n_directions, 18)."""
        lattice = self.lattice
        n_sites = lattice.n_sites
        self._work = np.zeros((n_sites, 3), np.complex128)
        matrices = np.empty((n_sites, len(lattice.directions), 3, 3), np.complex128)
        field = LatticeField(self.comm, lattice, "matrix", np.complex128, method)
        for axis in range(len(lattice.shape)):
            half = (0.5 * self._phases(axis))[:, None, None]
            field.values[:n_sites] = links[axis].reshape(n_sites, 9)
            for parity in range(N_PARITIES):
                field.exchange(parity)
            behind = field.values[lattice.neighbours[:, 2 * axis + 1]].reshape(n_sites, 3, 3)
            matrices[:, 2 * axis] = half * links[axis]
            matrices[:, 2 * axis + 1] = -half * behind.conj().transpose(0, 2, 1)
        return matrices.reshape(n_sites, -1, 9).view(np.float64)

    def _phases(self, axis: int) -> Int64Array:
        """Return eta_axis of each site, int64 (n_sites,), in the order of the lattice."""
        lattice = self.lattice
        box = lattice.layout.box(lattice.rank)
        before = [np.arange(part.start, part.stop) if i < axis else np.zeros(part.stop - part.start, int)
                  for i, part in enumerate(box)]  # fmt: skip
        phases = np.empty(lattice.n_sites, np.int64)
        phases[lattice.index] = 1 - 2 * (sum(np.ix_(*before), np.zeros((), np.int64)) % 2)
        return phases


@dataclass(frozen=True)
class CgSolution:
    """Solution of a linear system by conjugate gradients.

    Attributes
    ----------
    vector : complex128 (n_even, 3)
    residuals : list of float
        Norm of the residual after each iteration, relative to the right-hand side; the first is 1.
    """

    vector: ComplexArray
    residuals: list[float]


def solve_cg(
    operator: StaggeredOperator, rhs: ComplexArray, tolerance: float = 1e-10, n_iterations: int = 1000
) -> CgSolution:
    """Solve (m^2 - D^2) x = rhs on the even sites by conjugate gradients. Collective.

    Dot products are exact and sums over neighbours have a fixed order, so the bits do not depend on the
    number of ranks, the grid or the method.

    Parameters
    ----------
    operator : StaggeredOperator
    rhs : complex128 (n_even, 3)
    tolerance : float
        Bound on the norm of the residual, relative to that of `rhs`.
    n_iterations : int
        Maximum number of iterations.

    Raises
    ------
    ConvergenceError
        On all ranks, if the residual is larger after `n_iterations`.
    """
    comm = operator.comm
    x, residual = np.zeros_like(rhs), rhs.copy()
    direction, product = residual.copy(), np.empty_like(residual)
    size = begin = _dot(comm, residual, residual)
    history = [1.0]
    while begin > 0 and history[-1] > tolerance:
        if len(history) > n_iterations:
            raise ConvergenceError(f"a residual of {history[-1]:.2g} after {n_iterations} iterations")
        operator.apply(direction, product)
        step = size / _dot(comm, direction, product)
        x += step * direction
        residual -= step * product
        before, size = size, _dot(comm, residual, residual)
        direction *= size / before
        direction += residual
        history.append(math.sqrt(size / begin))
    return CgSolution(x, history)


def _dot(comm: Communicator, a: ComplexArray, b: ComplexArray) -> float:
    """Return the real part of a dot product over all ranks, as the exact sum of the rounded products."""
    limbs = zero_limbs()
    add_exactly(a.view(np.float64) * b.view(np.float64), limbs)
    return round_limbs(comm.allreduce(limbs))
