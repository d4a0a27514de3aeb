"""Upper bounds of what a rank sends for maps of components, beside what the maps of bands do.

Owners of the rows of a pixel in bands send these to one rank that owns all components of the pixel, and get
theirs (`petamap.mapmaking.mixing`): c components of k values go to owners in bands, b bands of k values back.
"""

from __future__ import annotations

from dataclasses import replace

from petamap.planning.message_bounds import MessageBounds
from petamap.planning.rank_traffic import ExchangedRows, RankSizes, Sent, small_collectives
from petamap.planning.reduction_bounds import (
    KeySizes,
    OwnerBounds,
    directory_pairs,
    pixel_sizes,
)


class ComponentBounds(MessageBounds):
    """Bounds of all phases of a run that maps components, with one reduction of the maps of bands.

    Parameters
    ----------
    sizes : RankSizes
        Of the maps of bands, with those of components.
    reduction : str
        Of the pixels of bands: a name of `petacomm.reduction.ALGORITHMS`.
    """

    def __init__(self, sizes: RankSizes, reduction: str = "owner") -> None:
        super().__init__(sizes, reduction)
        assert sizes.components is not None, "of components"
        self.of = sizes.components
        self.rows = OwnerBounds(self.of.rows, pixel_sizes(self.of.rows))

    def _to_bands(self) -> Sent:
        """Return what takes maps of components to the owners of rows of bands."""
        return self.rows.forward(8 * self.sizes.n_stokes * self.of.n_components)

    def _gathered(self, n_values: int) -> Sent:
        """Return what takes so many values of each row of bands to the owners of components."""
        return self.rows.reverse(8 * self.of.n_bands * n_values)

    # --- phases

    def weights(self) -> Sent:
        """Return the bound of hits and matrices of bands, and of these at the owners of components."""
        matrices = self._gathered(self.triangle).times(1 + self.sizes.uniform_binning)
        dead = self.rows.forward(1).times(2)
        found = matrices.plus(self._gathered(1), dead, self.rows.set_up(), small_collectives(24))
        return super().weights().plus(found)

    def reduction_plan(self) -> Sent:
        """Return the bound of the plans of bands, and of rows of components, which no ranks share."""
        one, n = self.of.rows, self.of.n_components
        n_keys, alone = n * one.n_owned, (ExchangedRows(), ExchangedRows())
        pairs = directory_pairs(one, n_keys, 1.0)
        keys = KeySizes(n_keys, n * one.n_chunks, pairs, 0.0, {"owner": alone})
        return super().reduction_plan().plus(OwnerBounds(one, keys).set_up(), small_collectives(12))

    def data(self) -> Sent:
        """Return the bound of the right-hand sides of bands, and of both maps at the owners of components."""
        return super().data().plus(self._gathered(self.sizes.n_stokes).times(2), small_collectives(4))

    def application(self) -> Sent:
        """Return the bound of an application: that of bands, and to these and back.

        Where ranks keep rows of ghosts of bands these get their values, as no rank has those of components.
        """
        ghosts = self.ghosts(8 * self.sizes.n_stokes, 8)
        return super().application().plus(ghosts, self._to_bands(), self._gathered(self.sizes.n_stokes))

    def iterations(self, iterations: int) -> Sent:
        """Return the bound of the solver; one of two levels takes a vector to the bands and back."""
        applied = self.ghosts(8 * self.sizes.n_stokes, 8)
        if self.model.model is not None:
            applied = applied.plus(self._to_bands(), self._gathered(self.sizes.n_stokes))
        return super().iterations(iterations).plus(applied.times(iterations + 2))

    def products(self) -> Sent:
        """Return the bound of the files: those of each component, of pairs of these, and of pixels."""
        each = (MessageBounds(replace(self.of.rows, product_columns=own)) for own in self.of.columns)
        return Sent().plus(*(one.products() for one in each), self.amplitudes())
