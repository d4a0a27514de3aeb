"""Choice of names by names, patterns of the shell, and beginnings of names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from petacomm.base.errors import ConfigError, closest, printable

_SHOWN = 12  # names that a message lists


def choose_names(
    words: Sequence[str], names: Iterable[str], what: str, *, where: str | None = None
) -> set[str]:
    """Return the names that words choose; all without words.

    Parameters
    ----------
    words : sequence of str
        Each is a name; or a pattern with ``*``, ``?`` or ``[ ]`` (`fnmatch`), upper and lower case apart; or
        the beginning of names.
    names : iterable of str
        Names to choose from.
    what : str
        What is named, for messages: "detector".
    where : str, optional
        Place of the words, for messages.

    Raises
    ------
    ConfigError
        If a word chooses no name; says which names there are.

    Examples
    --------
    >>> from petacomm.base.name_patterns import choose_names
    >>> sorted(choose_names(["LFI2[78]S", "LFI18"], ["LFI18S", "LFI18M", "LFI27S", "LFI28M"], "detector"))
    ['LFI18M', 'LFI18S', 'LFI27S']
    """
    known = list(dict.fromkeys(names))
    if not words:
        return set(known)
    chosen: set[str] = set()
    for word in words:
        matches = _matches(word, known)
        if not matches:
            raise ConfigError(f"no {what} '{printable(word)}'", where=where, mend=_mend(word, known))
        chosen |= matches
    return chosen


def _matches(word: str, known: list[str]) -> set[str]:
    """Return the names that a word chooses: as the name itself, else as a pattern, else as a beginning."""
    if word in known:
        return {word}
    return {name for name in known if fnmatchcase(name, word)} or {
        name for name in known if name.startswith(word)
    }


def _mend(word: str, known: list[str]) -> str:
    if not known:
        return "there are none"
    shown = ", ".join(printable(name) for name in sorted(known)[:_SHOWN])
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    meant = closest(word, known)
    return (f"did you mean '{printable(meant)}'? " if meant else "") + f"there are: {shown}{more}"
