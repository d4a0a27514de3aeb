"""Machine files of the package and of users, and the errors of invalid files."""

import re

import pytest
from machine_files import write_machine

from petacomm.base.errors import ConfigError
from petacomm.topology import load_machine, machine_names

GOOD = """title = "Two boxes"
nodes = { value = 2, source = "counted" }
sockets_per_node = { value = 1, source = "counted" }
cores_per_socket = { value = 4, source = "counted" }
latency = { value = "2 us", source = "sheet" }
bandwidth = { value = "10 GB/s", source = "sheet" }
memory_bandwidth = { value = "40 GB/s", source = "sheet" }

[network]
kind = "none"
shape = [2]

[sources]
sheet = "the vendor's data sheet"
"""

# Table 2 of Sudarsan et al. 2011: latency (us), bandwidth, memory bandwidth (GB/s), cores of a node, nodes.
TABLE = {
    "franklin": (8.15, 1.65, 12.8, 4, 9660),
    "jaguar": (8.26, 1.6, 25.6, 12, 18688),
    "pleiades-h": (1.32, 1.66, 21.33, 8, 5888),
    "pleiades-w": (1.83, 3.13, 32.0, 12, 2048),
    "hopper": (1.4, 5.95, 25.6, 24, 6392),
}


def user_file(tmp_path, text):
    path = tmp_path / "boxes.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", machine_names())
def test_every_machine_of_the_package_loads_with_a_source_for_each_number_and_is_written_back(name, tmp_path):
    machine = load_machine(name)
    numbers = {key for key, value in vars(machine).items() if isinstance(value, int | float)}
    assert numbers == set(machine.sources) and all(machine.sources.values())
    assert "paper" not in machine.sources.values()  # short names are spelled out
    path = tmp_path / f"{name}.toml"
    path.write_text(write_machine(machine))
    assert load_machine(str(path)) == machine


@pytest.mark.parametrize("name", TABLE)
def test_the_five_machines_have_the_numbers_of_the_published_table(name):
    machine = load_machine(name)
    latency, bandwidth, memory_bandwidth, cores, nodes = TABLE[name]
    assert machine.latency == pytest.approx(latency * 1e-6, rel=1e-12)
    assert machine.bandwidth == pytest.approx(bandwidth * 1e9, rel=1e-12)
    assert machine.memory_bandwidth == pytest.approx(memory_bandwidth * 1e9, rel=1e-12)
    assert (machine.cores, machine.nodes) == (cores, nodes)


def test_a_users_file_is_read_by_path_and_missing_numbers_have_defaults(tmp_path):
    machine = load_machine(user_file(tmp_path, GOOD))
    assert (machine.name, machine.title, machine.nodes, machine.cores) == ("boxes", "Two boxes", 2, 4)
    assert machine.latency == 2e-6 and machine.sources["latency"] == "the vendor's data sheet"
    assert machine.network == {"kind": "none", "shape": [2]}
    assert machine.node_bandwidth == machine.bandwidth
    assert machine.sources["node_bandwidth"].startswith("by default")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("latency =", "latancy =", r":5: unknown key 'latancy' \(did you mean 'latency'\?\)"),
        (
            'bandwidth = { value = "10 GB/s", source = "sheet" }\n',
            "",
            r"'bandwidth' is missing \(write bandw",
        ),
        ('"2 us"', "2e-6", r":5: 'latency' must be a number with a unit, in quotes \(write latency"),
        ('"2 us"', '"2 parsec"', r":5: 'latency': unknown time unit 'parsec'"),
        ('"2 us"', '"-2 us"', r":5: 'latency' must be positive and finite"),
        ('"2 us"', '"nan us"', r":5: 'latency' must be positive and finite"),
        ("value = 2,", "value = 2.5,", r":2: 'nodes' must be a whole number, 1 or more"),
        ("value = 2,", "value = true,", r":2: 'nodes' must be a whole number"),
        ("value = 2,", "value = 0,", r":2: 'nodes' must be a whole number"),
        ('{ value = 2, source = "counted" }', "2", r":2: 'nodes' must have a value and a source"),
        ('source = "counted"', 'source = ""', r":2: the source of 'nodes' must be text"),
        ('"Two boxes"', "2", r":1: 'title' must be text"),
        ("[network]", "network = 3\n[other]", r":9: 'network' must be a table|unknown key 'other'"),
        ("nodes =", "nodes", r":2: not TOML"),
        ("latency =", "nodes =", r":5: 'nodes' is given twice \(first in line 2\)"),
    ],
)
def test_errors_of_a_wrong_file_name_line_and_remedy(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=re.escape("boxes.toml") + ".*" + message):
        load_machine(user_file(tmp_path, GOOD.replace(old, new, 1)))


def test_an_unknown_machine_and_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown machine 'jagaur' .*did you mean 'jaguar'"):
        load_machine("jagaur")
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_machine(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b"title = '\xe9'")
    with pytest.raises(ConfigError, match=r"latin\.toml: cannot be read: not UTF-8"):
        load_machine(str(tmp_path / "latin.toml"))
