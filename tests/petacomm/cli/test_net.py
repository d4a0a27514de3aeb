"""``petacomm net`` from the command line: tables, JSON, drawings, and errors of one line."""

import json
import re

import pytest
from machine_files import write_machine

from petacomm.cli.main import main
from petacomm.topology import load_machine

MESH = ["--machine", "bluegene-l", "--shape", "4x4x2"]


def run_net(words, capsys):
    assert main(["net", *words]) == 0
    return capsys.readouterr().out


def test_predict_lists_all_algorithms_and_marks_the_lowest(capsys):
    words = ["predict", "allreduce", *MESH, "--bytes", "8 KiB"]
    text = run_net(words, capsys)
    assert "allreduce of 8,192 bytes, 32 ranks on a mesh of 4x4x2" in text
    assert "\nhamiltonian + " in text and "tree cannot be used: it needs that elements are integers" in text
    data = json.loads(run_net([*words, "--json"], capsys))
    assert [row["algorithm"] for row in data["algorithms"] if row["published"]] == ["hamiltonian"]
    (chosen,) = (row["algorithm"] for row in data["algorithms"] if row["chosen"])
    assert f"\n{chosen} * " in text
    rows = {row["algorithm"]: row for row in data["algorithms"]}
    assert rows["ring"]["loaded"] >= rows["ring"]["closed"] > 0
    assert rows["tree"]["closed"] is None


@pytest.mark.parametrize(
    "where",
    [
        ["--machine", "bluegene-l", "--shape", "8x4x2"],
        ["--machine", "bluegene-l", "--shape", "4x4x4", "--type", "int"],
        ["--machine", "bluegene-l", "--shape", "2x4x2", "--mode", "virtual-node"],
        ["--machine", "hopper", "--ranks", "768"],
        ["--machine", "perlmutter", "--ranks", "300"],
    ],
)
@pytest.mark.parametrize("collective", ["broadcast", "reduce", "allreduce", "alltoall", "barrier"])
def test_the_marked_row_is_the_lowest_of_those_printed(where, collective, capsys):
    for size in ([],) if collective == "barrier" else (["--bytes", "16"], ["--bytes", "64 KiB"]):
        text = run_net(["predict", collective, *where, *size], capsys)
        rows = re.findall(r"^(\S+)((?: [*+])*) +([0-9.e+]+) (us|ms|s)\b", text, re.MULTILINE)
        seconds = {row[0]: float(row[2]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[row[3]] for row in rows}
        (marked,) = (row[0] for row in rows if "*" in row[1])
        assert seconds[marked] == min(seconds.values()) and sum("+" in row[1] for row in rows) == 1


def test_auto_simulates_the_marked_row_and_published_the_switching_points(capsys):
    words = [*MESH, "--bytes", "64 KiB", "--json"]
    rows = json.loads(run_net(["predict", "allreduce", *words], capsys))["algorithms"]
    for policy, mark in (("auto", "chosen"), ("published", "published")):
        (expected,) = (row["algorithm"] for row in rows if row[mark])
        run = json.loads(run_net(["simulate", "allreduce", *words, "--algorithm", policy], capsys))
        assert run["algorithm"] == expected
    assert [row["algorithm"] for row in rows if row["published"]] == ["hamiltonian"]


def test_long_messages_of_mpich_wait_for_the_busiest_link(capsys):
    words = [
        "predict",
        "alltoall",
        "--machine",
        "bluegene-l",
        "--shape",
        "8x8x8",
        "--bytes",
        "1 MiB",
        "--json",
    ]
    rows = {row["algorithm"]: row for row in json.loads(run_net(words, capsys))["algorithms"]}
    a_node = 511 * 2**20 / rows["pairwise"]["loaded"] / 1e6
    assert a_node == pytest.approx(58.3, rel=0.01)  # MB/s, measured (Almasi et al. 2005, Table 3)
    assert rows["random-order"]["loaded"] == pytest.approx(rows["random-order"]["closed"], rel=0.01)
    assert rows["random-order"]["chosen"] and rows["random-order"]["published"]


def test_ranks_without_a_shape_have_closed_forms_alone(capsys):
    words = ["predict", "barrier", "--machine", "hopper", "--ranks", "1024", "--json"]
    rows = {row["algorithm"]: row for row in json.loads(run_net(words, capsys))["algorithms"]}
    assert rows["dissemination"]["closed"] == pytest.approx(10 * load_machine("hopper").latency, rel=1e-3)
    assert rows["dissemination"]["loaded"] is None and rows["lines"]["unmet"]


def test_simulate_counts_packets(capsys):
    words = ["simulate", "alltoall", *MESH, "--bytes", "480"]
    assert re.search(r"packets +1,984, and 0 copies", run_net(words, capsys))
    data = json.loads(run_net([*words, "--json"], capsys))
    assert data["packets"] == 32 * 31 * 2 and data["seconds"] > 32 * 480 / 154e6
    assert json.loads(run_net([*words, "--json", "--seed", "1"], capsys))["seconds"] == data["seconds"]


def test_one_rank_takes_no_time(capsys):
    for where in (["--machine", "frontier", "--ranks", "1"], ["--machine", "bluegene-l", "--shape", "1x1x1"]):
        text = run_net(["simulate", "alltoall", *where, "--bytes", "8"], capsys)
        assert "bandwidth" not in text and re.search(r"^time +0 us$", text, re.MULTILINE)


def test_wires_are_not_simulated(capsys):
    assert "the closed form" in run_net(["simulate", "barrier", *MESH], capsys)


def test_a_part_of_the_shape_is_a_mesh(capsys):
    words = [
        "simulate",
        "broadcast",
        "--machine",
        "bluegene-l",
        "--shape",
        "8x8x8",
        "--bytes",
        "960",
        "--json",
    ]
    data = json.loads(run_net([*words, "--nodes", "0-3,8-11", "--algorithm", "streams"], capsys))
    assert data["shape"] == [1, 2, 4] and data["wrap"] == [False] * 3


@pytest.mark.parametrize(
    ("collective", "words", "what"),
    [
        ("broadcast", ["--shape", "4x4x1", "--algorithm", "streams"], "</circle>|<circle"),
        ("allreduce", ["--shape", "2x2x2", "--algorithm", "ring"], "round 13"),
        ("alltoall", ["--shape", "8x8x8", "--algorithm", "random-order"], "most"),
    ],
)
def test_drawings_show_rounds_and_links(collective, words, what, tmp_path, capsys):
    path = tmp_path / "drawn.svg"
    words = ["draw", collective, "--machine", "bluegene-l", *words, "--bytes", "960", "--out", str(path)]
    assert run_net(words, capsys).strip() == str(path)
    text = path.read_text()
    assert text.startswith("<svg ") and re.search(what, text) and "busiest link" in text


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["predit", "barrier", *MESH], "did you mean 'predict'?"),
        (["predict"], "no collective"),
        (["paper", "--machine", "jaguar"], "its machine is that of the source"),
        (["paper", "barrier"], "unknown argument 'barrier'"),
        (["predict", "barrier", "twice", *MESH], "unknown argument 'twice'"),
        (["predict", "barier", *MESH], "did you mean 'barrier'?"),
        (["predict", "barrier"], "--machine is missing"),
        (["predict", "barrier", "--machine", "bluegene-l"], "neither --shape nor --ranks"),
        (["predict", "barrier", *MESH, "--bytes", "8"], "carries no bytes"),
        (["predict", "allreduce", *MESH], "--bytes is missing"),
        (["predict", "allreduce", *MESH, "--bytes", "0"], "allreduce of 0 bytes"),
        (["predict", "allreduce", *MESH, "--bytes", "12"], "not whole elements of 8"),
        (["predict", "allreduce", *MESH, "--bytes", "1 parsec"], "unknown bytes unit"),
        (["predict", "allreduce", *MESH, "--bytes", "8", "--ranks", "33"], "whose product is the number of"),
        (["predict", "allreduce", *MESH, "--bytes", "8", "--nodes", "0-2,9"], "do not fill a rectangle"),
        (["predict", "allreduce", *MESH, "--bytes", "8", "--nodes", "0-2,x"], "not a range of nodes"),
        (
            ["predict", "barrier", "--machine", "perlmutter", "--ranks", "2147483648"],
            "cannot have 2147483648",
        ),
        (["predict", "barrier", "--machine", "bluegene-l", "--shape", "2048x1024x1024"], "2^31"),
        (["predict", "barrier", "--machine", "perlmutter", "--shape", "4x4"], "is a dragonfly"),
        (
            ["simulate", "broadcast", *MESH, "--bytes", "8", "--algorithm", "steams"],
            "did you mean 'streams'?",
        ),
        (["simulate", "broadcast", *MESH, "--bytes", "8", "--policy", "fare"], "did you mean 'fair'?"),
        (["simulate", "allreduce", *MESH, "--bytes", "8", "--algorithm", "tree"], "elements are integers"),
        (["simulate", "alltoall", *MESH, "--bytes", "1 GB"], "fewer bytes"),
        (["simulate", "barrier", "--machine", "jaguar", "--ranks", "8"], "packets need a torus"),
        (["draw", "barrier", "--machine", "jaguar", "--ranks", "18688"], "too many to draw"),
        (["draw", "barrier", *MESH, "--out", "barrier.png"], "barrier.png: drawings are SVG"),
        (["predict", "barrier", *MESH, "--policy", "fair"], "--policy with 'predict'"),
        (["predict", "barrier", *MESH, "--algorithm", "lines"], "--algorithm with 'predict'"),
        (["draw", "barrier", *MESH, "--json"], "--json with 'draw'"),
        (["paper", "--shape", "4x4x4"], "--shape with 'paper'"),
        (["paper", "--ranks", "0"], "--ranks 0 (give 1 or more"),
        (["predict", "barrier", "--machine", "fugaku", "--ranks", "8", "--mode", "virtual-node"], "mode"),
        (
            ["predict", "barrier", "--machine", "xt3", "--shape", "4x4x4", "--mode", "heater"],
            "nothing of xt3",
        ),
        (["predict", "barrier", *MESH, "--nodes", "5-3"], "'5-3' ends before it begins"),
        (["predict", "allreduce", *MESH, "--bytes", "9" * 5000], "unknown bytes unit"),
        (["predict", "allreduce", *MESH, "--bytes", "1e400 GB"], "give a finite number"),
        (["simulate", "alltoall", *MESH, "--bytes", "8", "--seed", "-1"], "seed: -1 is not between 0 and"),
    ],
)
def test_errors_are_one_line_before_any_work(words, what, capsys):
    assert main(["net", *words]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("petacomm: error: ") and what in line and not said.out


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("network.read_cycles", ["simulate", "barrier", "--algorithm", "lines"]),
        ("network.hop_latency", ["simulate", "alltoall", "--bytes", "8"]),
        ("network.tree_latency", ["predict", "barrier"]),
        ("network.interrupt_latency", ["predict", "barrier"]),
        ("latency", ["predict", "barrier"]),
    ],
)
def test_a_machine_that_lacks_a_number_is_refused(number, words, tmp_path, capsys):
    text, key = write_machine(load_machine("bluegene-l")), number.removeprefix("network.")
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(line for line in text.splitlines() if not line.startswith(f"{key} ")))
    assert main(["net", *words, "--machine", str(path), "--shape", "4x4x2"]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert f"'{number}'" in line and "did you mean" not in line and not said.out
