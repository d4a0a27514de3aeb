"""What somebody asks of a network, in words of the command line, judged before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import Int64Array
from petacomm.base.units import quantity
from petacomm.network.bluegene_wires import network_number
from petacomm.network.hardware import hardware_of
from petacomm.network.predictions import Scene
from petacomm.schedule import ALGORITHMS, Call, algorithms, call_on, on_machine
from petacomm.schedule.schedule import Collective, check_ranks
from petacomm.topology import Machine, Mode, Partition, Torus, load_machine, parse_shape, partition

COLLECTIVES = ("broadcast", "reduce", "allreduce", "alltoall", "barrier")
_ITEM_SIZES = {"double": 8, "int": 4}


@dataclass(frozen=True)
class Question:
    """A collective on a machine, as somebody asks for it.

    Attributes
    ----------
    collective, machine : str
    shape : str, optional
        Like "8x8x8".
    ranks : int, optional
        Of a call without a shape; with one, what its product must be.
    n_bytes : int, optional
        Of the vector; of an all-to-all, from each rank to each. None of a barrier.
    kind : str
        Of what is reduced: ``double`` or ``int``.
    root : int
    nodes : str, optional
        A sub-communicator: "0-15,32-47", nodes of the shape.
    mode : str
        Of BlueGene/L: ``coprocessor``, ``virtual-node`` or ``heater``.
    algorithm : str
    """

    collective: str
    machine: str
    shape: str | None = None
    ranks: int | None = None
    n_bytes: int | None = None
    kind: str = "double"
    root: int = 0
    nodes: str | None = None
    mode: str = Mode.COPROCESSOR.value
    algorithm: str = "auto"

    def answerable(self) -> tuple[Call, Scene]:
        """Return the call and where it takes place.

        Raises
        ------
        ConfigError
            If anything does not fit: one error, before any work.
        """
        collective = self._collective()
        n_elements, itemsize = self._elements()
        if self.ranks is not None:
            check_ranks(self.ranks)
        machine = load_machine(self.machine)
        given = {"itemsize": itemsize, "integer": self.kind == "int", "root": self.root}
        if self.shape is None:
            return self._without_shape(collective, machine, n_elements, given)
        whole = _part(machine, parse_shape(self.shape), self.mode)
        hardware = hardware_of(machine)
        if self.nodes is not None:
            # Ranks in the order of the rectangle, so that rank r is its node r.
            grid, _ = on_machine(whole.grid, read_nodes(self.nodes))
            call = Call(collective, grid.n_nodes, n_elements, grid=grid, **given)  # type: ignore[arg-type]
        else:
            call = call_on(whole, collective, n_elements, **given)
            if "tree_bandwidth" not in machine.network:
                call = Call(collective, call.n_ranks, n_elements, grid=call.grid, **given)  # type: ignore[arg-type]
        if self.ranks not in (None, call.n_ranks):
            raise ConfigError(
                f"{self.nodes or self.shape} has {call.n_ranks} ranks, and --ranks says {self.ranks}",
                mend="give a shape whose product is the number of ranks",
            )
        return call, Scene(machine, hardware, network_number(machine, "link_bandwidth", "bandwidth"))

    def _without_shape(
        self, collective: Collective, machine: Machine, n_elements: int, given: dict[str, int]
    ) -> tuple[Call, Scene]:
        if self.nodes is not None:
            raise ConfigError("--nodes without --shape", mend="say of which shape they are nodes")
        if self.ranks is None:
            raise ConfigError("neither --shape nor --ranks", mend="give --shape 8x8x8, or --ranks 512")
        call = Call(collective, self.ranks, n_elements, **given)  # type: ignore[arg-type]
        return call, Scene(machine, None, machine.bandwidth)

    def _collective(self) -> Collective:
        if self.collective not in COLLECTIVES:
            mend = did_you_mean(self.collective, list(COLLECTIVES))
            raise ConfigError(f"unknown collective '{self.collective}'", mend=mend)
        collective = cast(Collective, self.collective)
        known = ["auto", *(algorithm.name for algorithm in algorithms(collective))]
        if self.algorithm != "auto" and (collective, self.algorithm) not in ALGORITHMS:
            mend = did_you_mean(self.algorithm, known)
            raise ConfigError(f"there is no {collective} '{self.algorithm}'", mend=mend)
        for name, value, choices in (
            ("type", self.kind, list(_ITEM_SIZES)),
            ("mode", self.mode, [mode.value for mode in Mode]),
        ):
            if value not in choices:
                raise ConfigError(f"unknown {name} '{value}'", mend=did_you_mean(value, choices))
        return collective

    def _elements(self) -> tuple[int, int]:
        """Return the elements of the call and the bytes of each."""
        if self.collective == "barrier":
            if self.n_bytes is not None:
                raise ConfigError("a barrier carries no bytes", mend="leave --bytes out")
            return 0, 1
        if self.n_bytes is None:
            raise ConfigError("--bytes is missing", mend="give --bytes 1024")
        if self.n_bytes < 1:
            raise ConfigError(f"{self.collective} of {self.n_bytes} bytes", mend="give 1 or more")
        itemsize = _ITEM_SIZES[self.kind] if self.collective in ("reduce", "allreduce") else 1
        if self.n_bytes % itemsize:
            raise ConfigError(
                f"{self.n_bytes} bytes are not whole elements of {itemsize} bytes",
                mend=f"give a multiple of {itemsize}, or another --type",
            )
        return self.n_bytes // itemsize, itemsize


def read_bytes(text: str) -> int:
    """Read "1024", "64 kB" or "1 MiB" as a number of bytes."""
    if text.strip().lstrip("-").isdecimal():
        return int(text)
    spaced = text.strip()
    digits = len(spaced) - len(spaced.lstrip("0123456789."))
    return round(quantity(f"{spaced[:digits]} {spaced[digits:].strip()}", "bytes"))


def _part(machine: Machine, shape: tuple[int, ...], mode: str) -> Partition:
    if "torus_unit" in machine.network:
        return partition(machine, shape, Mode(mode))
    kind = machine.network.get("kind")
    if kind not in ("torus", "mesh"):
        raise ConfigError(f"machine '{machine.name}' is a {kind}, not a torus", mend="give --ranks instead")
    grid = Torus(shape, kind == "torus")
    if grid.n_nodes > machine.nodes:
        raise ConfigError(f"a shape of {grid.n_nodes} nodes", mend=f"{machine.name} has {machine.nodes}")
    return Partition(grid)


def read_nodes(text: str) -> Int64Array:
    """Read "0-15,32-47"."""
    chosen = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 18:
            raise ConfigError(f"'{part}' is not a range of nodes", mend='write them like "0-15,32-47"')
        end = int(last) if dash else int(first)
        if end - int(first) > 1 << 24:
            raise ConfigError(f"'{part}' are more than 2^24 nodes", mend="give fewer")
        chosen.append(np.arange(int(first), end + 1))
    return np.concatenate(chosen)
