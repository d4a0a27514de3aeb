"""Operator of staggered fermions on a periodic lattice.

With the phases eta_mu(x) = (-1)^(x_0 + ... + x_(mu - 1)) and links U_mu(x) in SU(3), the operator is
``(D v)(x) = 1/2 sum over mu of eta_mu(x) [U_mu(x) v(x + mu) - U_mu(x - mu)^+ v(x - mu)]``. It maps fields on
one parity to fields on the other. D is anti-Hermitian, so m^2 - D^2 is positive on the sites of one parity
(Kogut and Susskind 1975).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from petacomm.base.typing import AnyArray, ComplexArray, FloatArray, Int64Array
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution._redistribution import hop_sites
from petacomm.redistribution.array_layout import DatatypeError
from petacomm.redistribution.halo import LatticeField
from petacomm.redistribution.lattice import N_PARITIES, Lattice

EVEN, ODD = 0, 1
# Parts of the inner sites, after each of which something else that is under way may go on.
_PARTS = 4


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
        self._inner_parts = [np.array_split(sites, _PARTS) for sites in self._inner]
        self._boundary = [lattice.boundary(parity) for parity in range(N_PARITIES)]

    @property
    def chosen(self) -> str | None:
        """Name of the method of the halo exchanges; None before "auto" has chosen."""
        return self._fields[0].chosen

    def apply(
        self, vector: ComplexArray, out: ComplexArray, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """Write (m^2 - D^2) vector to `out`. Collective.

        Parameters
        ----------
        vector, out : complex128 (n_even, 3)
        meanwhile : callable, optional
            Called now and then while halos travel and inner sites are summed, such as the `test` of a
            `PersistentCollective` that is under way.
        """
        even, odd = (field.values for field in self._fields)
        even[self.lattice.sites(EVEN)] = vector
        self._apply_d(self._fields[EVEN], EVEN, odd, meanwhile)
        d_squared = self._work
        self._apply_d(self._fields[ODD], ODD, d_squared, meanwhile)
        np.multiply(vector, self.mass**2, out=out)
        out -= d_squared[self.lattice.sites(EVEN)]

    def _apply_d(
        self, field: LatticeField, parity: int, out: ComplexArray, meanwhile: Callable[[], object] | None
    ) -> None:
        """Write D times the field on a parity to the other parity of `out`; the halo overlaps inner sites."""
        to = 1 - parity
        field.start(parity)
        if meanwhile is None:
            self._sum_neighbours(self._inner[to], field.values, out)
        else:
            for part in self._inner_parts[to]:
                self._sum_neighbours(part, field.values, out)
                meanwhile()
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
