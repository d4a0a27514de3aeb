"""Upper bounds of what a rank sends for preconditioners with a model of whole streams.

Those are two levels, and what any other has beside pixels for the amplitudes of templates. Streams are dealt
to ranks whole, which the unknowns of samples and templates are sent to and back from; pixels of the model of
two levels are summed by "owner".
"""

from __future__ import annotations

from petamap.planning.rank_traffic import AmplitudeSizes, ModelSizes, RankSizes, Sent, small_collectives
from petamap.planning.reduction_bounds import KeySizes, OwnerBounds, counted_alltoall, moved_sizes

# Bytes of one dot product: 60 limbs of 64 bits.
DOT_BYTES = 480
# Bytes of the noise of a stream; of a visit of a pixel and of a knot; of an unknown sample, with its key.
_NOISE_BYTES, _VISIT_BYTES, _KNOT_BYTES, _GAP_BYTES = 112, 24, 40, 20
# Products with the model in an application: the highest degree of its polynomial, alone and with templates.
_DEGREE, _DEGREE_WITH_TEMPLATES = 12, 16
# Such products while it is made, and those with eight vectors at once: to choose the degree, and with
# templates for slow modes, for modes that are left undetermined, and all of it twice.
_PRODUCTS, _WIDE_PRODUCTS = 14, 4
_PRODUCTS_WITH_TEMPLATES, _WIDE_WITH_TEMPLATES = 400, 24
# Modes that may be undetermined, for each of which the system itself is applied once.
_CANDIDATES = 24
# Groups of pixels of the coarse map at most, and vectors side by side.
_GROUPS, _WIDTH = 64, 8
# Calls of what amplitudes in common are solved by, in a product with the model, and around all of them.
_COMMON_CALLS, _COMMON_AROUND = 6, 12


class ModelBounds:
    """Bounds of the model of a preconditioner.

    Parameters
    ----------
    sizes : RankSizes
    """

    def __init__(self, sizes: RankSizes) -> None:
        self.sizes, self.model = sizes, sizes.model
        self.amplitudes = sizes.amplitudes or AmplitudeSizes()
        self.has_templates = sizes.amplitudes is not None

    @property
    def has_model(self) -> bool:
        """Whether the preconditioner has a model."""
        return self.model is not None or self.has_templates

    # --- set-up

    def set_up(self, application: Sent) -> Sent:
        """Return the bound of making the model.

        Parameters
        ----------
        application : Sent
            Of the system, which tells what templates leave undetermined.
        """
        if not self.has_model:
            return Sent()
        one = self.sizes
        noises = counted_alltoall(one, one.others(one.streams.partners), _NOISE_BYTES * one.streams.n_held)
        transfers = [OwnerBounds(one, keys).set_up() for keys in self._moved()]
        # templates that many streams share have a model of their own beside
        found = noises.plus(*transfers, self._common_set_up(), small_collectives(60)).times(2)
        return found if self.model is None else found.plus(self._two_level_set_up(self.model, application))

    def _two_level_set_up(self, model: ModelSizes, application: Sent) -> Sent:
        one, width = self.sizes, _WIDTH
        visits = self._visits(model)
        pixels = model.pixels
        rows = {"owner": (pixels.to_owners, pixels.to_ghosts)}
        keys = KeySizes(pixels.n_keys, pixels.n_chunks, 2 * pixels.n_keys, 0.0, rows)
        made = visits.plus(OwnerBounds(one, keys).set_up().times(3))
        columns = one.n_stokes * _GROUPS // width
        if not self.has_templates:
            sums = Sent(0.0, 1.0, 8 * _GROUPS * one.n_stokes * width).times(columns)
            products = (
                self.product(model).times(_PRODUCTS).plus(self.product(model, width).times(_WIDE_PRODUCTS))
            )
            dots = Sent(0.0, 1.0, DOT_BYTES).times(2 * _PRODUCTS)
            return made.plus(sums, products, dots, small_collectives(120))
        products = self.product(model).times(_PRODUCTS_WITH_TEMPLATES)
        products = products.plus(self.product(model, width).times(columns + _WIDE_WITH_TEMPLATES))
        dots = Sent(0.0, 1.0, DOT_BYTES).times(2 * _PRODUCTS_WITH_TEMPLATES + _CANDIDATES**2)
        looked_at = application.plus(self._transfers(), small_collectives(8)).times(_CANDIDATES)
        return (
            made.plus(products, self._common_set_up(), small_collectives(400)).times(2).plus(dots, looked_at)
        )

    def _visits(self, model: ModelSizes) -> Sent:
        """Return what goes to the ranks that model streams: visits of pixels, of gaps, and of amplitudes."""
        one = self.sizes
        n_bytes = _VISIT_BYTES * model.n_visits + _KNOT_BYTES * model.n_knots
        n_bytes += _GAP_BYTES * one.n_gaps + 2 * 8 * one.n_keys
        n_bytes += _VISIT_BYTES * self.amplitudes.per_sample * one.n_samples
        partners = one.others(one.streams.partners)
        return counted_alltoall(one, 10 * partners, n_bytes).plus(counted_alltoall(one, 0.0, 0.0).times(9))

    def _common_set_up(self) -> Sent:
        """Return the sum of the matrices of amplitudes that streams have in common."""
        own = self.amplitudes
        if not own.n_common:
            return Sent()
        return Sent(0.0, 24.0, 8 * (own.n_held + own.n_modelled + 24 * own.n_common + own.n_squares))

    # --- application

    def solution(self) -> Sent:
        """Return the bound of one application of the preconditioner.

        That of two levels is a polynomial. Each degree is an exchange of the model's pixels, the sums of
        groups of them, and their sizes.
        """
        if not self.has_model:
            return Sent()
        transfers = self._transfers().plus(small_collectives(8), self._common(1).times(_COMMON_AROUND))
        if self.model is None:
            return transfers
        degree = _DEGREE_WITH_TEMPLATES if self.has_templates else _DEGREE
        # slow modes and those that are undetermined ask for dot products, too
        dots = Sent(0.0, 1.0, DOT_BYTES).times(16 if self.has_templates else 0)
        return self.product(self.model).times(degree + 2).plus(transfers, dots)

    def product(self, model: ModelSizes, width: int = 1) -> Sent:
        """Return a product with the model: pixels to the ranks that model streams, and their sums back."""
        to_owners, to_ghosts = model.pixels.to_owners, model.pixels.to_ghosts
        back = 2 if self.has_templates else 1  # of baselines, and of amplitudes
        n_bytes = 8 * self.sizes.n_stokes * width * (back * to_owners.rows + to_ghosts.rows)
        rows = Sent(back * to_owners.messages + to_ghosts.messages, 0.0, n_bytes)
        groups = Sent(0.0, 1.0, 8 * _GROUPS * self.sizes.n_stokes * width)
        return rows.plus(groups, small_collectives(3 + back), self._common(width).times(_COMMON_CALLS))

    def _moved(self) -> list[KeySizes]:
        """Return the sizes of unknown samples and amplitudes that are sent to the ranks of their streams."""
        one, own = self.sizes, self.amplitudes
        n_gaps = (one.n_gaps + self.model.n_gaps) if self.model else 0.0  # solved for by two levels alone
        # what streams have in common is owned by one of many ranks that model it
        n_amplitudes = own.n_held + own.n_modelled + 2 * own.n_sent
        partners = one.streams.partners + 2 * own.partners
        return [
            moved_sizes(one, n_gaps, one.streams.partners),
            moved_sizes(one, n_amplitudes, partners, max(own.most_holders, 2.0)),
        ]

    def _transfers(self) -> Sent:
        """Return unknowns beside the map that are sent to where they are modelled, and back."""
        moved = self._moved()
        rows = sum(keys.rows["owner"][0].rows for keys in moved)
        messages = sum(2 * keys.rows["owner"][0].messages for keys in moved if keys.n_keys)
        return Sent(2 * messages, 0.0, 2 * 8 * rows)

    def _common(self, width: int) -> Sent:
        """Return the sums over streams of amplitudes that they have in common."""
        n = self.amplitudes.n_common
        return Sent(0.0, 2.0, 8 * width * (n + 1)) if n else Sent()
