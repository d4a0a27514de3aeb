"""Programs of MSCCL, which runs collectives of its users on GPUs: their XML, written and read.

Limits and rules are those of the reader in the library itself (microsoft/msccl, Azure/msccl-executor-nccl):
thread blocks that speak to one rank each way, steps that wait for one other step each, chunks of one size.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from petacomm.base.errors import ConfigError, printable
from petacomm.base.files import read_text

# Steps of a thread block (some releases for newer NCCL take 64), chunks of a step, blocks of a channel.
MAX_STEPS, MAX_COUNT, MAX_BLOCKS = 256, 71, 32
MAX_CHUNKS = 2**15 - 1  # offsets are 16-bit integers
BUFFERS = ("i", "o", "s")
# What steps read and write of their own rank, and whether they send and receive.
KINDS = {
    "s": "source send", "r": "destination receive", "rcs": "destination send receive",
    "rrs": "source send receive", "rrc": "source destination receive",
    "rrcs": "source destination send receive", "cpy": "source destination", "re": "source destination",
    "nop": "",
}  # fmt: skip
_TAG = re.compile(r"<!--.*?-->|<\?.*?\?>|<(/?)(\w+)((?:\s+\w+\s*=\s*\"[^\"<]*\")*)\s*(/?)>|\S", re.DOTALL)
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*\"([^\"<]*)\"")
_NUMBER = re.compile(r"-?\d{1,18}$")


@dataclass
class Step:
    """A step of a thread block.

    Attributes
    ----------
    kind : str
        Of `KINDS`: sends, receives, sums of what is received, copies; a "nop" only waits.
    source, destination : (str, int)
        Buffer (i input, o output, s scratch) and chunk.
    count : int
        Chunks.
    after : (int, int)
        Thread block of the same rank and its step that is waited for; -1: none.
    awaited : bool
        Whether another step waits for this one.
    """

    kind: str
    source: tuple[str, int] = ("i", -1)
    destination: tuple[str, int] = ("o", -1)
    count: int = 0
    after: tuple[int, int] = (-1, -1)
    awaited: bool = False

    def text(self, number: int) -> str:
        """Return the line of the step."""
        (source, source_at), (destination, destination_at) = self.source, self.destination
        block, step = self.after
        return (
            f'      <step s="{number}" type="{self.kind}" srcbuf="{source}" srcoff="{source_at}" '
            f'dstbuf="{destination}" dstoff="{destination_at}" cnt="{self.count}" '
            f'depid="{block}" deps="{step}" hasdep="{int(self.awaited)}"/>\n'
        )


@dataclass
class ThreadBlock:
    """Steps that are done one after the other; the ranks that they send to and receive from, -1: none."""

    send: int = -1
    receive: int = -1
    channel: int = 0
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class MscclProgram:
    """An algorithm of MSCCL.

    Attributes
    ----------
    name, collective : str
    n_ranks : int
    n_chunks : int
        Of the data of a rank, of a loop.
    in_place : bool
        Whether input and output are the same memory.
    chunks : tuple of int
        Chunks of a rank's input, output and scratch.
    gpus : list of lists of ThreadBlock
        Of each rank.
    """

    name: str
    collective: str
    n_ranks: int
    n_chunks: int
    in_place: bool
    chunks: tuple[int, int, int]
    gpus: list[list[ThreadBlock]]

    def text(self) -> str:
        """Return the program as XML."""
        lines = [
            f'<algo name="{self.name}" proto="Simple" nchannels="1" nchunksperloop="{self.n_chunks}" '
            f'ngpus="{self.n_ranks}" coll="{self.collective}" inplace="{int(self.in_place)}" '
            f'outofplace="{int(not self.in_place)}" minBytes="0" maxBytes="0">\n'
        ]
        sizes = " ".join(f'{name}_chunks="{n}"' for name, n in zip(BUFFERS, self.chunks, strict=True))
        for rank, blocks in enumerate(self.gpus):
            lines.append(f'  <gpu id="{rank}" {sizes}>\n')
            for number, block in enumerate(blocks):
                peers = f'send="{block.send}" recv="{block.receive}" chan="{block.channel}"'
                lines.append(f'    <tb id="{number}" {peers}>\n')
                lines += [step.text(at) for at, step in enumerate(block.steps)]
                lines.append("    </tb>\n")
            lines.append("  </gpu>\n")
        return "".join([*lines, "</algo>\n"])

    def messages(self) -> Counter[tuple[int, int]]:
        """Return how many chunks go from each rank to each other."""
        found: Counter[tuple[int, int]] = Counter()
        for rank, blocks in enumerate(self.gpus):
            for block in blocks:
                sent = sum(step.count for step in block.steps if "send" in KINDS[step.kind])
                if sent:
                    found[rank, block.send] += sent
        return found


def read_msccl(path: str | os.PathLike[str]) -> MscclProgram:
    """Read an algorithm of MSCCL.

    Raises
    ------
    ConfigError
        If there is no such file, it is none of MSCCL's, or breaks a rule of it; the error names the line.
    """
    return parse_msccl(str(path), read_text(path))


def parse_msccl(file: str, text: str) -> MscclProgram:
    """Return the algorithm of a text, as `read_msccl`; the file's name is for errors."""
    return _Parser(file, text).program()


@dataclass
class _Element:
    """An element of the XML, its attributes and its line."""

    name: str
    attributes: dict[str, str]
    line: int
    inside: list[_Element] = field(default_factory=list)


class _Parser:
    """An algorithm that is read."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self._text = file, text
        self._line_ends = [match.start() for match in re.finditer("\n", text)]

    def program(self) -> MscclProgram:
        roots = self._elements()
        if len(roots) != 1 or roots[0].name != "algo":
            self._fail(1, "an algorithm of MSCCL is one element 'algo'")
        algo = roots[0]
        n_ranks, n_chunks = self._number(algo, "ngpus", 1), self._number(algo, "nchunksperloop", 1)
        gpus: dict[int, tuple[tuple[int, int, int], list[ThreadBlock]]] = {}
        for gpu in algo.inside:
            rank = self._number(gpu, "id", 0, n_ranks - 1)
            if rank in gpus:
                self._fail(gpu.line, f"a second gpu {rank}")
            gpus[rank] = self._gpu(gpu, rank, n_ranks)
        if len(gpus) != n_ranks:
            self._fail(algo.line, f"{len(gpus)} of {n_ranks} gpus")
        sizes = {chunks for chunks, _ in gpus.values()}
        chunks = tuple(max(column) for column in zip(*sizes, strict=True))
        program = MscclProgram(
            algo.attributes.get("name", ""), self._text_of(algo, "coll"), n_ranks, n_chunks,
            self._number(algo, "inplace", 0, 1) == 1, chunks, [gpus[rank][1] for rank in range(n_ranks)],
        )  # fmt: skip
        self._check_connections(program, algo.line)
        return program

    def _elements(self) -> list[_Element]:
        """Return the elements of the text, those of others in them."""
        top = _Element("", {}, 0)
        inside = [top]
        for match in _TAG.finditer(self._text):
            line = bisect_right(self._line_ends, match.start() - 1) + 1
            closes, name, attributes, alone = match.groups()
            if name is None:
                if not match[0].startswith("<"):
                    self._fail(line, f"'{printable(match[0])}' is no element of XML")
                if match[0] == "<":
                    self._fail(line, "an element of XML that does not end, or is none")
                continue
            if closes:
                if inside[-1].name != name or len(inside) == 1:
                    self._fail(line, f"'{name}' ends here, and has not begun")
                inside.pop()
                continue
            element = _Element(name, dict(_ATTRIBUTE.findall(attributes)), line)
            inside[-1].inside.append(element)
            if not alone:
                inside.append(element)
        if len(inside) > 1:
            self._fail(inside[-1].line, f"'{inside[-1].name}' does not end")
        return top.inside

    def _gpu(self, gpu: _Element, rank: int, n_ranks: int) -> tuple[tuple[int, int, int], list[ThreadBlock]]:
        i, o, s = (self._number(gpu, f"{name}_chunks", 0, MAX_CHUNKS) for name in BUFFERS)
        sizes = dict(zip(BUFFERS, (i, o, s), strict=True))
        blocks: dict[int, ThreadBlock] = {}
        for tb in gpu.inside:
            number = self._number(tb, "id", 0, len(gpu.inside) - 1)
            send, receive = (self._number(tb, name, -1, n_ranks - 1) for name in ("send", "recv"))
            if number in blocks or rank in (send, receive):
                self._fail(tb.line, f"a second thread block {number}, or one that speaks to its own rank")
            block = ThreadBlock(send, receive, self._number(tb, "chan", 0, MAX_BLOCKS - 1))
            blocks[number] = block
            for at, step in enumerate(tb.inside[: MAX_STEPS + 1]):
                if self._number(step, "s", 0, MAX_STEPS - 1) != at:
                    self._fail(step.line, f"step {at} of the thread block is to stand here")
                block.steps.append(self._step(step, block, sizes))
        found = [blocks[number] for number in range(len(blocks))]
        self._check_dependencies(gpu, found)
        return (i, o, s), found

    def _step(self, element: _Element, block: ThreadBlock, sizes: dict[str, int]) -> Step:
        kind = self._text_of(element, "type")
        if kind not in KINDS:
            self._fail(element.line, f"no type of a step: '{printable(kind)}'")
        does, count = KINDS[kind], self._number(element, "cnt", 0, MAX_COUNT)
        places = []
        for name, short in (("source", "src"), ("destination", "dst")):
            buffer = self._text_of(element, f"{short}buf")
            if buffer not in sizes:
                self._fail(element.line, f"no buffer: '{printable(buffer)}'")
            offset = self._number(element, f"{short}off", -1)
            if name in does and not 0 <= offset <= sizes[buffer] - count:
                self._fail(element.line, f"{count} chunks from {offset} of {sizes[buffer]} in '{buffer}'")
            places.append((buffer, offset))
        for word, peer in (("send", block.send), ("receive", block.receive)):
            if word in does.split() and peer < 0:
                self._fail(element.line, f"the thread block has no rank to {word} with")
        after = self._number(element, "depid", -1), self._number(element, "deps", -1)
        return Step(kind, places[0], places[1], count, after, self._number(element, "hasdep", 0, 1) == 1)

    def _check_dependencies(self, gpu: _Element, blocks: list[ThreadBlock]) -> None:
        for tb, block in zip(gpu.inside, blocks, strict=True):
            for element, step in zip(tb.inside, block.steps, strict=True):
                other, number = step.after
                if other < 0:
                    continue
                if other >= len(blocks) or not 0 <= number < len(blocks[other].steps):
                    self._fail(element.line, f"there is no step {number} of a thread block {other}")
                if not blocks[other].steps[number].awaited:
                    self._fail(element.line, f"step {number} of thread block {other} has hasdep=0")

    def _check_connections(self, program: MscclProgram, line: int) -> None:
        """Look at what goes from rank to rank: each way by one thread block of a channel, and received."""
        sent: dict[tuple[int, int, int], list[int]] = {}
        received: dict[tuple[int, int, int], list[int]] = {}
        for rank, blocks in enumerate(program.gpus):
            for block in blocks:
                ends = (
                    (sent, "send", (rank, block.send, block.channel), block.send),
                    (received, "receive", (block.receive, rank, block.channel), block.receive),
                )
                for found, word, key, peer in ends:
                    if peer < 0:
                        continue
                    if key in found:
                        self._fail(line, f"two thread blocks of gpu {rank} {word} with gpu {peer}")
                    found[key] = [one.count for one in block.steps if word in KINDS[one.kind].split()]
        for key in sorted({*sent, *received}):
            if sent.get(key, []) != received.get(key, []):
                self._fail(line, f"gpu {key[1]} does not receive what gpu {key[0]} sends to it")

    def _text_of(self, element: _Element, name: str) -> str:
        if name not in element.attributes:
            self._fail(element.line, f"'{element.name}' lacks '{name}'")
        return element.attributes[name]

    def _number(self, element: _Element, name: str, least: int, most: int = 2**31) -> int:
        text = self._text_of(element, name)
        if not _NUMBER.match(text) or not least <= int(text) <= most:
            self._fail(element.line, f"{name}='{printable(text)}' is no number from {least} to {most}")
        return int(text)

    def _fail(self, line: int, what: str) -> NoReturn:
        raise ConfigError(f"{self.file}:{line}: {what}", mend="take a file as MSCCL reads it")
