"""Sizes of the model of two levels, for which streams are dealt to ranks whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.costs.forecast import forecast
from petacomm.costs.occupancy import Occupancy
from petamap.mapmaking.preconditioning import fewest_samples_per_visit
from petamap.planning.rank_sizes import pixel_fields
from petamap.planning.rank_traffic import ExchangedRows, ModelPixels, ModelSizes, RankSizes


def model_pixels(run: Occupancy, streams: Occupancy, ranks_per_node: int) -> ModelPixels:
    """Return the pixels of the model, of which ranks have those that they own in the run as well.

    Parameters
    ----------
    run, streams : Occupancy
        Of all pixels, by ranks of the run, and by those that have whole streams.
    ranks_per_node : int
    """
    bits = max(1, run.size - 1).bit_length()
    own = (run.keys << bits) | run.owner
    modelled = (streams.keys[streams.key_of] << bits) | streams.holders
    codes = distinct(np.concatenate([own, modelled]).astype(np.int64))
    held = Occupancy.from_codes(codes, bits, run.size)
    found = pixel_fields(forecast(held, ranks_per_node), held)
    to_owners, to_ghosts = found["rows"]["owner"][:2]
    return ModelPixels(found["n_keys"], found["n_chunks"], to_owners, to_ghosts)


def with_model_sizes(sizes: RankSizes, streams: RankSizes | None, knots: float) -> RankSizes:
    """Return sizes with those of the model.

    Parameters
    ----------
    sizes, streams : RankSizes
        Of the run, and of one whose data are dealt by streams; None where it is not known.
    knots : float
        Of the model, a sample.
    """
    like = streams or sizes
    least = fewest_samples_per_visit(bool(sizes.amplitudes))
    n_knots = sizes.n_samples * knots + 2 * sizes.streams.n_held
    pixels = sizes.modelled or _pixels_at_most(sizes, like)
    model = ModelSizes(pixels, sizes.n_samples / least + n_knots, n_knots, 2 * like.n_gaps)
    of_streams = streams.splits if streams else (None,) * len(sizes.splits)
    pairs = zip(sizes.splits, of_streams, strict=True)
    splits = tuple(with_model_sizes(one, other, knots) for one, other in pairs)
    whole = sizes.auxiliary.whole and with_model_sizes(sizes.auxiliary.whole, None, knots)
    return replace(sizes, model=model, splits=splits, auxiliary=sizes.auxiliary._replace(whole=whole))


def _pixels_at_most(sizes: RankSizes, streams: RankSizes) -> ModelPixels:
    """Return the pixels of the model if none that a rank owns in the run is of streams that it models.

    A loose bound, where the pixels of all ranks are not known.
    """
    n = sizes.n_owned
    to_owners, to_ghosts = (
        ExchangedRows(sizes.others(one.messages + n), one.rows + n)
        for one in (streams.to_owners, streams.to_ghosts)
    )
    return ModelPixels(streams.n_keys + n, streams.n_chunks + min(n, sizes.n_chunks), to_owners, to_ghosts)
