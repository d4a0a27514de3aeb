"""Schedules as execution plans of MSCCL++: read back, run on numbers as GPUs would, and wrong files."""

import copy
import json
from collections import Counter, defaultdict

import numpy as np
import pytest
from schedules import pair_schedules

from petacomm.base.errors import ConfigError
from petacomm.schedule import CollectiveCall, Round, Schedule, ScheduleError, flat_messages, make_schedule
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.schedule.chunk_division import COLLECTIVES
from petacomm.schedule.mscclpp import MAX_OPERATIONS, read_mscclpp
from petacomm.schedule.mscclpp_plan import mscclpp_plan, write_mscclpp
from petacomm.topology import Torus

CALLS = 2


def told(grid, n_elements=11):
    """Iterate over schedules that MSCCL++ can run."""
    for schedule in pair_schedules(grid, n_elements):
        if schedule.collective in COLLECTIVES:
            yield schedule


class Gpus:
    """GPUs that run a plan on integers, some calls of it one after the other, as a lot draws who goes on.

    Threads of a block wait for each other at a nop alone: between two of them its operations are done in an
    order that is drawn, too, but for signals and waits among themselves.
    """

    def __init__(self, plan, seed):
        self.plan, self.rng = plan, np.random.default_rng(seed)
        self.given = self.rng.integers(1, 10**6, (plan.n_ranks, plan.gpus[0].chunks[0]))
        self.memory = [
            {
                "i": self.given[rank].copy(),
                "o": np.zeros(gpu.chunks[1], int),
                "s": np.zeros(gpu.chunks[2], int),
            }
            for rank, gpu in enumerate(plan.gpus)
        ]
        self.signals, self.semaphores = Counter(), Counter()
        self.call, self.results = [0] * plan.n_ranks, [[] for _ in plan.gpus]
        self.left = [self._begun(rank) for rank in range(plan.n_ranks)]

    def _begun(self, rank):
        """Return the operations of each thread block, in segments that nops end."""
        blocks = []
        for block in self.plan.gpus[rank].blocks:
            segments = [[]]
            for operation in block.operations:
                if operation["name"] == "nop":
                    segments.append([])
                else:
                    segments[-1].append(operation)
            blocks.append([segment for segment in segments if segment])
        return blocks

    def run(self):
        """Run all calls until nobody can go on; return whether all are done."""
        while True:
            ranks = self.rng.permutation(self.plan.n_ranks)
            if not any(self._go_on(rank) for rank in ranks):
                return all(call == CALLS for call in self.call)

    def _go_on(self, rank):
        if self.call[rank] == CALLS:
            return False
        if not any(self.left[rank]):
            self.results[rank].append({kind: values.copy() for kind, values in self.memory[rank].items()})
            self.call[rank] += 1
            self.left[rank] = self._begun(rank)
            self.memory[rank]["i"] += not self.plan.in_place
            return True
        return any(self._step(rank, at) for at in self.rng.permutation(len(self.left[rank])))

    def _step(self, rank, at):
        segments = self.left[rank][at]
        if not segments:
            return False
        segment = segments[0]
        synced = [n for n, operation in enumerate(segment) if "src_buff" not in operation]
        free = [n for n, operation in enumerate(segment) if "src_buff" in operation] + synced[:1]
        number = int(self.rng.choice(free))
        if not self._done(rank, self.plan.gpus[rank].blocks[at], segment[number]):
            return False
        del segment[number]
        if not segment:
            del segments[0]
        return True

    def _done(self, rank, block, operation):
        gpu, name = self.plan.gpus[rank], operation["name"]
        if name.startswith("sem_"):
            (number,) = operation["semaphore_ids"]
            if name == "sem_acquire" and not self.semaphores[rank, number]:
                return False
            self.semaphores[rank, number] += 1 if name == "sem_release" else -1
            return True
        if "src_buff" not in operation:
            ends = [self._end(rank, block.channels[one]) for one in operation["channel_ids"]]
            if name.endswith("signal"):
                self.signals.update(ends)
                return True
            theirs = [(other, rank, number) for _, other, number in ends]
            if not all(self.signals[one] for one in theirs):
                return False
            self.signals.subtract(theirs)
            return True
        sources = [self._memory(rank, gpu, block, part) for part in operation["src_buff"]]
        (target,) = [self._memory(rank, gpu, block, part) for part in operation["dst_buff"]]
        target[:] = np.sum(sources, axis=0)
        return True

    def _end(self, rank, channel):
        channels = self.plan.gpus[rank].channels
        return rank, channels[channel], channels[:channel].count(channels[channel])

    def _memory(self, rank, gpu, block, part):
        kind = part.get("type")
        if "buffer_id" in part:
            rank, kind = gpu.buffers[block.buffers[part["buffer_id"]]]
        return self.memory[rank][kind][part["index"] : part["index"] + part["size"]]

    def is_right(self):
        """Return whether all ranks had after each call what the collective makes of what was given."""
        n_ranks = self.plan.n_ranks
        for call in range(CALLS):
            found = [results[call] for results in self.results]
            if self.plan.in_place:
                total = self.given.sum(axis=0) * n_ranks**call
                right = all((one["i"] == total).all() for one in found)
            else:
                blocks = (self.given + call).reshape(n_ranks, n_ranks, -1)
                right = all((one["o"] == blocks[:, rank].ravel()).all() for rank, one in enumerate(found))
            if not right:
                return False
        return True


@pytest.mark.parametrize("shape", [(2,), (5,), (8,), (4, 2), (3, 3)])
def test_gpus_end_with_what_the_collective_makes(shape):
    schedules = list(told(Torus(shape), 24))
    assert {one.collective for one in schedules} == set(COLLECTIVES)
    for schedule in schedules:
        plan = mscclpp_plan(schedule)
        for seed in range(3):
            gpus = Gpus(plan, seed)
            assert gpus.run() and gpus.is_right(), schedule.algorithm


@pytest.mark.parametrize("without", ["nop", "relaxed"])
def test_without_what_threads_and_neighbours_wait_for_gpus_end_with_something_else(without):
    """The test above would see it."""
    n_ranks = 4 if without == "nop" else 2
    plan = mscclpp_plan(make_schedule(CollectiveCall("allreduce", n_ranks, 24), "recursive-doubling"))
    for gpu in plan.gpus:
        for block in gpu.blocks:
            kept = [one for one in block.operations if not one["name"].startswith(("rlx", "sem_acq"))]
            if without == "nop":
                kept = [one for one in block.operations if one["name"] != "nop"]
            block.operations = kept
    wrong = 0
    for seed in range(20):
        gpus = Gpus(plan, seed)
        wrong += not (gpus.run() and gpus.is_right())
    assert wrong


@pytest.mark.parametrize("shape", [(2,), (5,), (4, 2)])
def test_plans_are_read_back_and_send_what_the_schedule_sends(shape, tmp_path):
    for schedule in told(Torus(shape)):
        path = write_mscclpp(schedule, tmp_path / "a.json")
        found = read_mscclpp(path)
        assert found == mscclpp_plan(schedule)
        assert found.text() == path.read_text()
        flat, sent = flat_messages(schedule, 1), defaultdict(int)
        for source, destination, size in zip(flat.source, flat.destination, flat.bytes, strict=True):
            sent[int(source), int(destination)] += int(size)
        inputs = schedule.n_elements if schedule.blocks is None else schedule.blocks.send_size
        chunk = inputs // found.gpus[0].chunks[0]
        assert {pair: n * chunk for pair, n in found.messages().items()} == dict(sent), schedule.algorithm


def test_long_schedules_have_several_thread_blocks():
    plan = mscclpp_plan(ring_allreduce(16, 16))
    for gpu in plan.gpus:
        assert len(gpu.blocks) > 2 and gpu.n_semaphores == len(gpu.blocks) - 1
        assert max(len(block.operations) for block in gpu.blocks) <= MAX_OPERATIONS
    gpus = Gpus(plan, 0)
    assert gpus.run() and gpus.is_right()


def of_one_round(n_ranks):
    """Return a schedule in which rank 0 sends to all others at once."""
    others = list(range(1, n_ranks))
    part = Round.from_columns([0] * len(others), others, 0, 1, destination_begin=1)
    return Schedule("allreduce", "made", n_ranks, 2, 1, lambda: iter([part]))


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (ring_allreduce(100, 100), "more operations than"),
        (of_one_round(20), "has 19 neighbours of a rank, and MSCCL"),
        (of_one_round(80), "more operations than"),
        (make_schedule(CollectiveCall("broadcast", 4, 16)), "have no root"),
    ],
)
def test_what_the_executor_has_no_room_for_is_refused(schedule, said):
    with pytest.raises(ScheduleError, match=said):
        mscclpp_plan(schedule)


PLAN = json.loads(mscclpp_plan(ring_allreduce(2, 4)).text())


def broken(change):
    plan = copy.deepcopy(PLAN)
    change(plan, plan["gpus"][1]["threadblocks"][0]["ops"])
    return plan


def data_of(operations):
    return next(one for one in operations if "src_buff" in one)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan, ops: plan.pop("gpus"), "lacks a list 'gpus'"),
        (lambda plan, ops: plan.update(inplace=1), "'inplace' is true or false"),
        (lambda plan, ops: plan["gpus"].reverse(), "gpu 1 stands in the place of gpu 0"),
        (lambda plan, ops: plan["gpus"][1].update(input_chunks=-1), "gpu 1: 'input_chunks' has -1"),
        (lambda plan, ops: plan["gpus"][1]["channels"][0].update(connected_to=[7]), "'connected_to' has 7"),
        (lambda plan, ops: ops[0].update(name="puts"), "block 0, operation 0: 'name' is \"puts\""),
        (lambda plan, ops: data_of(ops)["dst_buff"][0].update(index=90), "chunks from 90 of"),
        (lambda plan, ops: data_of(ops)["dst_buff"][0].update(buffer_id=3), "'buffer_id' has 3"),
        (lambda plan, ops: ops.extend([{"name": "nop"}] * MAX_OPERATIONS), "has room for 64"),
        (lambda plan, ops: ops.append({"name": "signal", "channel_ids": [0]}), "gpu 1 signals gpu 0"),
        (lambda plan, ops: ops.append({"name": "wait", "channel_ids": [5]}), "'channel_ids' has 5"),
        (lambda plan, ops: ops.append([]), "an object is to stand in the place of a list"),
        (lambda plan, ops: plan["gpus"][1].update(semaphores=3), "gpu 1: lacks a list 'semaphores'"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(change, said, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(broken(change)))
    with pytest.raises(ConfigError, match=said) as caught:
        read_mscclpp(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "[" * 100000, "{", "[]", "1", '{"gpus": 3}'])
def test_what_is_no_plan_is_told(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"a\.json"):
        read_mscclpp(path)
