"""Source of the templates that a finished run has solved for: their signals are subtracted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from petacomm.base.errors import ConfigError
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petamap.data.formats.amplitudes import read_amplitudes
from petamap.data.observation import Observation
from petamap.data.selection import observations_option
from petamap.data.source import SourceContext
from petamap.templates.template_signal import SolvedTemplate


@dataclass(frozen=True)
class SolvedTemplatesOptions:
    """Subtracts templates before it, with the amplitudes of a finished run."""

    path: str = option(path=True, help="NAME_amplitudes.fits of a run with the same observations")
    templates: tuple[str, ...] = option(
        (), help="names, as azimuth-synchronous; default: all that observations have"
    )
    observations: tuple[str, ...] = observations_option()
    solve: bool = option(False, help="solve for what is left of them, too; false: they are known now")


class SolvedTemplatesSource:
    """Source of no data, which subtracts templates."""

    options: ClassVar[type] = SolvedTemplatesOptions

    def __init__(self, options: SolvedTemplatesOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._path = context.folder / options.path

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations without the signals of their templates.

        Raises
        ------
        ConfigError
            If no observation has such a template, or the run had other amplitudes.
        DataError
            If the file is none of amplitudes.
        """
        options, place = self._options, self._context.place
        table = self._context.read(read_amplitudes, self._path)
        names = dict.fromkeys(each.name for one in observations for each in one.templates)
        if not names:
            raise ConfigError(
                "no template before it", where=place("path"),
                mend="declare the templates of that run first, with the same options",
            )  # fmt: skip
        chosen = choose_names(options.templates, names, "template", where=place("templates"))
        among = (one.name for one in observations)
        of = choose_names(options.observations, among, "observation", where=place("observations"))
        found = []
        for one in observations:
            own = [each for each in one.templates if one.name in of and each.name in chosen]
            signals = [SolvedTemplate(one, each, table, str(self._path)) for each in own]
            for signal in signals:
                signal.check()
            kept = (
                one.templates if options.solve else tuple(each for each in one.templates if each not in own)
            )
            found.append(dataclasses.replace(one, signals=(*one.signals, *signals), templates=kept))
        return found
