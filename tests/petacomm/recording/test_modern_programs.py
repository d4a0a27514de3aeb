"""A program that calls what codes of today call, in phases, each of which is counted to the byte."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from recorded import COMPILER, byte_matrix, record_command, require_compiler

from petacomm.recording.recording import CALLS

N = 4
PHASES = (
    *("edges", "in place", "neighbours", "datatypes", "intercommunicator", "one-sided"),
    *("partitioned", "threads", "parts", "forked", "large counts"),
)
MAY_LACK = {"partitioned", "large counts"}  # of MPIs before MPI-4

RANKS = np.arange(N)
FROM, TO = np.meshgrid(RANKS, RANKS, indexing="ij")
OTHERS, NEXT = FROM != TO, (FROM + 1) % N == TO


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    require_compiler()
    folder = tmp_path_factory.mktemp("modern")
    source = Path(__file__).with_name("samples") / "modern.c"
    words = [COMPILER, "-w", "-pthread", source, "-o", folder / "modern"]
    subprocess.run(words, check=True, timeout=60)
    recording = record_command(folder, N, "./modern")
    return {name: recording.of_phase(number + 1) for number, name in enumerate(PHASES)
            if number + 1 in recording.phases}  # fmt: skip


def pairs(*entries):
    """Return the bytes between ranks, of entries (source, target, bytes)."""
    matrix = np.zeros((N, N), np.int64)
    for source, target, n_bytes in entries:
        matrix[source, target] += n_bytes
    return matrix


def neighbours():
    ring = [(rank, (rank + 1) % 3, 3 * 8 * (rank + 1) + 16) for rank in range(3)]
    line = [(rank, rank + 1, 24) for rank in range(3)] + [(rank, rank - 1, 8) for rank in range(1, 4)]
    return pairs(*ring, *line)


# Bytes between ranks that the program names, in each phase.
EXPECTED = {
    "edges": 24 * (FROM == TO),
    "in place": OTHERS * ((8 + 4) * (FROM + TO + 1) + 8 * (TO + 1))
    + NEXT * 8 * (10 - (TO + 1))
    + OTHERS * (TO == 0) * 8 * (FROM + 1)
    + OTHERS * (FROM == 3) * 8 * (TO + 1),
    "neighbours": neighbours(),
    "datatypes": NEXT * (4 * 48 + 5 * 9),
    "intercommunicator": (FROM == 0) * OTHERS * (8 * TO + 16) + (TO == 0) * OTHERS * 16,
    "one-sided": pairs((1, 3, 16 + 8), (3, 0, 8 + 40), (0, 3, 8), (3, 2, 16), (2, 3, 8)),
    "partitioned": NEXT * (2 * 96 + 40 + 48),
    "threads": NEXT * 3 * 8 * sum(1 + i % 6 for i in range(50)),
    "parts": NEXT * 16 + pairs((0, 2, 56), (2, 0, 56)),
    "forked": NEXT * 56,
    "large counts": NEXT * 88 + OTHERS * (8 * (FROM + TO + 1) + 8 * (TO + 1)),
}
# Calls of collectives that petacomm makes messages of: root, bytes and calls.
COLLECTIVES = {
    "edges": {"bcast": (0, 0, 1)},
    "in place": {
        "alltoall": (0, 40, 1), "allgather": (0, 48, 1), "allreduce": (0, 56, 1), "gather": (1, 64, 1),
        "scatter": (1, 72, 1), "reduce": (1, 80, 1),
    },
    "one-sided": {"barrier": (0, 0, 1)},
    "large counts": {"allreduce": (0, 8, 5)},
}  # fmt: skip


@pytest.mark.parametrize("name", PHASES)
def test_what_ranks_send(recorded, name):
    if name in MAY_LACK and name not in recorded:
        pytest.skip("this MPI has no such calls")
    assert np.array_equal(byte_matrix(recorded[name].direct, N), EXPECTED[name])


@pytest.mark.parametrize("name", PHASES)
def test_collectives_that_ranks_call(recorded, name):
    if name in MAY_LACK and name not in recorded:
        pytest.skip("this MPI has no such calls")
    found = {
        CALLS[row["call"]]: (int(row["root"]), int(row["size"]), int(row["calls"]))
        for row in recorded[name].collectives
        if not recorded[name].groups[row["group"]].inter
    }
    assert found == COLLECTIVES.get(name, {})


def test_empty_messages_are_messages(recorded):
    edges = recorded["edges"].direct
    assert edges["messages"].sum() == 2 * N and (edges["bytes"] == 0).sum() == N
    assert recorded["datatypes"].direct["messages"].sum() == 3 * N
    one_sided = recorded["one-sided"].direct
    assert one_sided["messages"].sum() == 2 + 2 + 2 + 1, "what only reads sends nothing of its own"
