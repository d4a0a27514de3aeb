"""Products of a run's filter-and-bin map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from petacomm.mpi import agree_on_errors
from petamap.data.run_summary import ModesTaken, Product, pixels_sha256
from petamap.mapmaking.filter_and_bin import FilterAndBin
from petamap.mapmaking.maps_in_memory import KeptProducts
from petamap.mapmaking.modes_taken import modes_taken
from petamap.mapmaking.products import MapWriter
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.target import map_frame
from petamap.sky.observation_matrix_file import observation_matrix, write_observation_matrix


@dataclass(frozen=True)
class FilterProducts:
    """Writer of a filter-and-bin map and its observation matrix. Collective.

    Attributes
    ----------
    setup : RunSetup
    filtering : FilterAndBin
    kept : KeptProducts, optional
        Takes the products in the place of files.
    """

    setup: RunSetup
    filtering: FilterAndBin
    kept: KeptProducts | None = None

    def write_map(self, path: Path) -> list[Product]:
        """Write the map, and return its entry in the summary, on rank 0."""
        return self._write("filtered", path, "filter-and-bin map", "filter and bin")

    def write_demodulated(self, path: Path, note: str) -> list[Product]:
        """Write the map as that of demodulated streams, and return its entry in the summary, on rank 0."""
        return self._write("demodulated", path, "map of demodulated streams", "demodulation", note)

    def _write(self, kind: str, path: Path, title: str, phase: str, note: str = "") -> list[Product]:
        system, setup = self.filtering.system, self.setup
        setup.progress.begin(phase, float(system.projection.local.n_out), "samples")
        values = self.filtering.map_of_data(setup.progress.advance)
        setup.progress.end(note)
        frame = map_frame(setup.config.map, setup.observations)
        writer = MapWriter(
            system.comm, system.projection.sky, system.keys, frame, setup.run_id(),
            setup.config.map.ordering, kept=self.kept,
        )  # fmt: skip
        names = list(system.projection.stokes.value)
        product = writer.write(kind, path, title, values, names, setup.unit)
        return [] if product is None else [product]

    def modes_taken(self) -> tuple[ModesTaken, ...]:
        """Return what templates take of the sky, by scale."""
        self.setup.progress.begin("modes taken")
        found = tuple(modes_taken(self.filtering))
        self.setup.progress.end(f"{len(found)} scales")
        return found

    def write_matrix(self, path: Path) -> list[Product]:
        """Write the observation matrix, and return its entry in the summary, on rank 0."""
        progress, found = self.setup.progress, list[Product]()
        columns = self.filtering.columns()
        progress.begin("observation matrix", float(columns.n), "columns")
        self.filtering.fill(columns, progress.advance)
        with agree_on_errors(self.setup.comm):
            if self.setup.comm.rank == 0:
                entries = columns.triplets()
                if self.kept is None:
                    write_observation_matrix(path, *entries, columns.n_unknowns, self.setup.run_id())
                else:
                    self.kept.keep(path, observation_matrix(*entries, columns.n_unknowns))
                digest = pixels_sha256(entries[2])
                found.append(
                    Product(
                        name="observation matrix", file=path.name if self.kept is None else "",
                        kind="observation_matrix", unit="", stokes="", sha256=digest,
                    )
                )  # fmt: skip
        progress.end(f"{columns.n} columns")
        return found
