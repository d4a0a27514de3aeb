"""Limits of control groups of both versions, in trees of files as Linux shows them."""

import pytest

from petacomm.base.control_groups import memory_left, processor_quota


@pytest.fixture
def groups(tmp_path):
    """Return a function that writes the groups of this process and their files, and returns both places."""

    def write(own, files):
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            file = tmp_path / "mount" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "mount", tmp_path / "own"

    return write


def test_the_least_of_all_groups_around_counts(groups):
    files = {
        "job/step/memory.max": "max\n",
        "job/step/memory.current": "700\n",
        "job/memory.max": "1000\n",
        "job/memory.current": "800\n",
        "job/memory.stat": "anon 500\ninactive_file 100\nactive_file 50\nshmem 150\n",
        "memory.stat": "anon 10000\n",
        "job/step/cpu.max": "max 100000\n",
        "job/cpu.max": "250000 100000\n",
    }
    places = groups("0::/job/step\n", files)
    assert memory_left(*places) == 1000 - (800 - 150)
    assert processor_quota(*places) == 2.5


def test_memory_high_is_a_limit_and_more_than_it_is_none_left(groups):
    files = {"a/memory.max": "max", "a/memory.high": "1000", "a/memory.current": "1200"}
    assert memory_left(*groups("0::/a\n", files)) == 0


def test_version_one(groups):
    own = "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"
    files = {
        "memory/job/memory.limit_in_bytes": "2000",
        "memory/job/memory.usage_in_bytes": "900",
        "memory/job/memory.stat": "cache 600\ntotal_inactive_file 200\ntotal_active_file 100\n",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "cpu,cpuacct/job/cpu.cfs_quota_us": "400000",
        "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
    }
    places = groups(own, files)
    assert memory_left(*places) == 2000 - (900 - 300)
    assert processor_quota(*places) == 4.0


def test_in_a_container_the_mount_is_the_group_itself(groups):
    places = groups(
        "0::/docker/1f2e\n", {"memory.max": "500", "memory.current": "100", "cpu.max": "50000 100000"}
    )
    assert memory_left(*places) == 400 and processor_quota(*places) == 0.5


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"memory.max": "max", "cpu.max": "max 100000"},
        {"memory.max": "", "cpu.max": ""},
        {"memory.max": "many", "cpu.max": "100000 0"},
        {"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"},
    ],
)
def test_no_limit(groups, files):
    places = groups("4:memory:/\n1:cpu:/\n0::/\n", files)
    assert memory_left(*places) is None and processor_quota(*places) is None


def test_groups_that_cannot_be_read_set_no_limit(groups, tmp_path):
    assert memory_left(tmp_path / "none", tmp_path / "nothing") is None
    mount, own = groups("no groups\n\n:::\n", {"memory.max": "500"})
    assert processor_quota(mount, own) is None
