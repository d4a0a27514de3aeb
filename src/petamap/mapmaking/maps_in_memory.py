"""Products of a run that stay in memory: what its files would hold, on rank 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError, DataError, require_known
from petamap.data.run_summary import Summary
from petamap.sky.sky_map import SkyMap


@dataclass
class KeptProducts:
    """Products by the names that their files would have, but for that of the run and ``.fits``; on rank 0.

    Attributes
    ----------
    run : str
        Name of the run.
    products : dict
    """

    run: str
    products: dict[str, Any] = field(default_factory=dict)

    def keep(self, path: Path, product: Any) -> None:
        """Keep a product that would be written to `path`."""
        self.products[path.stem.removeprefix(f"{self.run}_")] = product


@dataclass(frozen=True, repr=False, eq=False)
class Maps:
    """Products of a run in memory: ``maps[name]``, with the usual ones as attributes.

    The names are those of the files that a run with a folder writes: ``map``, ``hits``, ``low_map`` of a
    frequency band, ``halves_first-second_null`` of a split. Maps are `SkyMap`; ``pixel_covariance``,
    ``amplitudes`` and ``observation_matrix`` are what their files are read as. Over MPI rank 0 has the
    products, and the other ranks none.

    Parameters
    ----------
    summary : Summary
        Solver, samples, pixels, seconds of each phase; as in ``summary.json``.
    products : dict
        Products by name.

    Examples
    --------
    >>> import petamap
    >>> config = petamap.parse_config('''
    ... [map]
    ... n_side = 16
    ... [[source]]
    ... kind = "satellite"
    ... duration = "6 h"
    ... sample_rate = "5 Hz"
    ... [[source]]
    ... kind = "noise"
    ... net = "60 uK s^0.5"
    ... ''')
    >>> maps = petamap.run(config)
    >>> sorted(maps)
    ['binned', 'covariance', 'hits', 'map', 'rcond', 'residual']
    >>> maps.sky.names, maps.hits.values.shape
    (('I', 'Q', 'U'), (1, 3072))
    """

    summary: Summary
    products: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        self._require_here()
        require_known("no product", name, self.products)
        return self.products[name]

    def __contains__(self, name: object) -> bool:
        return name in self.products

    def __iter__(self) -> Iterator[str]:
        return iter(self.products)

    def __len__(self) -> int:
        return len(self.products)

    @property
    def sky(self) -> SkyMap:
        """Map of the sky: of maximum likelihood, or binned where nothing else was made."""
        return self._map("map" if self.summary.solver is not None else "binned")

    @property
    def binned(self) -> SkyMap:
        """Binned map."""
        return self._map("binned")

    @property
    def hits(self) -> SkyMap:
        """Samples in each pixel."""
        return self._map("hits")

    @property
    def covariance(self) -> SkyMap:
        """Covariance of the white noise of each pixel: II, IQ, IU, QQ, QU, UU."""
        return self._map("covariance")

    @property
    def rcond(self) -> SkyMap:
        """Reciprocal condition of the Stokes matrix of each pixel."""
        return self._map("rcond")

    @property
    def residual(self) -> SkyMap:
        """Binned minus maximum-likelihood map."""
        return self._map("residual")

    def _map(self, kind: str) -> SkyMap:
        self._require_here()
        if kind not in self.products:
            several = [name for name in self.products if name.endswith(f"_{kind}")] or [*self.products]
            raise ConfigError(
                f"the run made no '{kind}'", mend=f"maps['{several[0]}'], or one of {', '.join(several)}"
            )
        found: SkyMap = self.products[kind]
        return found

    def _require_here(self) -> None:
        if not self.products:
            raise DataError(
                "the products of a run over MPI are on rank 0, or none was asked for",
                mend="use them where comm.rank == 0",
            )

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        from html import escape

        first, *others = self._lines()
        return f"<b>{escape(first)}</b><br>" + "<br>".join(map(escape, others))

    def _lines(self) -> tuple[str, str]:
        totals, solver = self.summary.totals, self.summary.solver
        how = "binned"
        if solver is not None:
            how = f"{'converged' if solver.converged else 'NOT CONVERGED'} in {solver.iterations} iterations"
        warned, n_pix = len(self.summary.warnings), totals.pixels_observed - totals.pixels_cut
        return (
            f"Maps of {totals.samples_used:,} samples in {n_pix:,} pixels, {how}"
            + (f", {warned} warning{'s' * (warned > 1)}" if warned else ""),
            f"products: {', '.join(self.products) or 'on rank 0'}",
        )
