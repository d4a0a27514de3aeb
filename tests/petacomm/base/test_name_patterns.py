"""Tests of the choice of names by names, patterns and beginnings."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.base.name_patterns import choose_names

LFI = ["LFI18S", "LFI18M", "LFI27S", "LFI27M", "LFI28S", "LFI28M"]
names = st.lists(st.text("aAbB-1", min_size=1, max_size=4), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], LFI),
        (["LFI28*"], LFI[4:]),
        (["LFI2[78]S", "LFI18M"], ["LFI18M", "LFI27S", "LFI28S"]),
        (["*[!M]"], LFI[::2]),
        (["LFI18"], LFI[:2]),
        (["LFI28S"], ["LFI28S"]),
    ],
)
def test_words_of_each_kind(words, expected):
    assert choose_names(words, LFI, "detector") == set(expected)


def test_a_name_is_no_pattern_and_no_beginning():
    assert choose_names(["a[1]"], ["a[1]", "a1"], "detector") == {"a[1]"}
    assert choose_names(["d1"], ["d1", "d10"], "detector") == {"d1"}


@given(names, st.text("aAbB*?", min_size=1, max_size=4))
def test_patterns_are_those_of_fnmatch(known, word):
    expected = {name for name in known if fnmatchcase(name, word)}
    if word not in known and expected:
        assert choose_names([word], known, "detector") == expected


def test_what_fits_nothing_is_told_with_the_names_there_are():
    with pytest.raises(ConfigError) as caught:
        choose_names(["LFI18*", "LFI29S"], LFI, "detector", where="run.toml:4")
    text = str(caught.value)
    assert text.startswith("run.toml:4: no detector 'LFI29S' (did you mean 'LFI2")
    assert all(name in text for name in LFI)
    with pytest.raises(ConfigError, match=r"no observation 'x\*' .*d00, .* and 28 more"):
        choose_names(["x*"], [f"d{k:02d}" for k in range(40)], "observation")
    with pytest.raises(ConfigError, match="there are none"):
        choose_names(["x"], [], "observation")
