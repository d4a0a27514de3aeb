"""Files of Open MPI's monitoring: what a program sent, to the byte, and files that are damaged or missing."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from recorded import byte_matrix

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.progress import SilentProgress
from petacomm.mapping.graph_files import read_graph
from petacomm.recording import read_recording
from petacomm.recording.recording import CALLS

SAMPLES = Path(__file__).with_name("samples")


def test_messages_of_a_program_and_those_inside_of_the_library():
    progress = SilentProgress()
    recording = read_recording(SAMPLES / "monitored.2.prof", progress)
    assert recording.n_ranks == 4
    assert progress.warnings == ["messages of a pair are taken to have their mean size"]
    own = recording.direct[recording.direct["group"] == 0]
    sent = own[own["call"] == CALLS.index("send")]
    ring = 2400 * np.roll(np.eye(4, dtype=int), 1, axis=1)
    ring[0, 1] += 16
    assert np.array_equal(byte_matrix(sent, 4), ring) and sent["messages"].tolist() == [4, 3, 3, 3]
    assert byte_matrix(own[own["call"] == CALLS.index("put")], 4)[2, 0] == 24
    assert byte_matrix(own[own["call"] == CALLS.index("get")], 4)[1, 3] == 40
    inside = recording.direct[recording.direct["group"] == 1]
    assert byte_matrix(inside, 4)[0].tolist() == [0, 4372, 4404, 0]
    assert read_graph(SAMPLES / "monitored.0.prof").total_bytes == recording.direct["bytes"].sum()


def test_damaged_and_missing_files_are_told(tmp_path):
    for path in SAMPLES.glob("monitored.*.prof"):
        shutil.copy(path, tmp_path)
    first, last = tmp_path / "monitored.0.prof", tmp_path / "monitored.3.prof"
    text = last.read_text()
    last.write_text(text.replace("2400 bytes", "many bytes"))
    with pytest.raises(DataError, match=r"monitored\.3\.prof:2: no line of messages"):
        read_recording(first)
    last.unlink()
    with pytest.raises(DataError, match="4 ranks, and rank 3 has no file"):
        read_recording(first)
    first.write_text("nothing")
    with pytest.raises(DataError, match="no record of MPI_COMM_WORLD"):
        read_recording(first)
    with pytest.raises(ConfigError, match=r"name NAME\.0\.prof"):
        read_recording(tmp_path / "other.prof")
