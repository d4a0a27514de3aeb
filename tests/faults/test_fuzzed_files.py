"""Files of any bytes for each parser: read, or refused by a typed error that names the file."""

from functools import partial

import pytest
from cases import cases
from changed_files import write_anew
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from parsers import READERS, seeds

WORDS = [b"", b"\0", b"\n", b",", b'"', b"-1", b"nan", b"1e999", b"9" * 30, b"\xff\xfe", b"[[", b"<!", b"1-"]


def changed(seed):
    """Return a strategy of files: any bytes, or a good file in which some pieces are exchanged."""
    piece = st.tuples(
        st.integers(0, len(seed)), st.integers(0, 30), st.binary(max_size=20) | st.sampled_from(WORDS)
    )

    def exchange(pieces):
        content = seed
        for place, n, new in pieces:
            content = content[:place] + new + content[place + n :]
        return content

    return st.binary(max_size=100) | st.lists(piece, min_size=1, max_size=4).map(exchange)


@pytest.mark.parametrize("n_tries", cases(20, long=(1000,)))
@pytest.mark.parametrize("name", seeds())
def test_files(name, n_tries, tmp_path, outcomes):
    path, read = tmp_path / name, READERS[name]

    def accept():
        read(path)

    @settings(
        max_examples=n_tries, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(changed(seeds()[name]))
    def attempt(content):
        write_anew(path, content)
        outcomes.tried(repr(content), partial(accept), None, name)

    attempt()
    assert not outcomes.bad, outcomes.bad[0]


@pytest.mark.parametrize("name", seeds())
def test_each_reader_takes_its_good_file(name, tmp_path):
    (tmp_path / name).write_bytes(seeds()[name])
    READERS[name](tmp_path / name)
