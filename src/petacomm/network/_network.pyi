from collections.abc import Sequence
from typing import Annotated, Literal, overload

import numpy
from numpy.typing import NDArray

class TorusHardware:
    def __init__(self, arg0: Sequence[int], arg1: Sequence[bool], /) -> None: ...
    @property
    def granule(self) -> int: ...
    @granule.setter
    def granule(self, arg: int, /) -> None: ...
    @property
    def header(self) -> int: ...
    @header.setter
    def header(self, arg: int, /) -> None: ...
    @property
    def payload(self) -> int: ...
    @payload.setter
    def payload(self, arg: int, /) -> None: ...
    @property
    def packet(self) -> int: ...
    @packet.setter
    def packet(self, arg: int, /) -> None: ...
    @property
    def granule_ticks(self) -> float: ...
    @granule_ticks.setter
    def granule_ticks(self, arg: float, /) -> None: ...
    @property
    def overhead_ticks(self) -> float: ...
    @overhead_ticks.setter
    def overhead_ticks(self, arg: float, /) -> None: ...
    @property
    def hop_ticks(self) -> int: ...
    @hop_ticks.setter
    def hop_ticks(self, arg: int, /) -> None: ...
    @property
    def channels(self) -> int: ...
    @channels.setter
    def channels(self, arg: int, /) -> None: ...
    @property
    def channel(self) -> int: ...
    @channel.setter
    def channel(self, arg: int, /) -> None: ...
    @property
    def injection_fifos(self) -> int: ...
    @injection_fifos.setter
    def injection_fifos(self, arg: int, /) -> None: ...
    @property
    def injection_fifo(self) -> int: ...
    @injection_fifo.setter
    def injection_fifo(self, arg: int, /) -> None: ...
    @property
    def reception_fifo(self) -> int: ...
    @reception_fifo.setter
    def reception_fifo(self, arg: int, /) -> None: ...
    @property
    def read_ticks(self) -> float: ...
    @read_ticks.setter
    def read_ticks(self, arg: float, /) -> None: ...
    @property
    def write_ticks(self) -> float: ...
    @write_ticks.setter
    def write_ticks(self, arg: float, /) -> None: ...
    @property
    def combine_ticks(self) -> float: ...
    @combine_ticks.setter
    def combine_ticks(self, arg: float, /) -> None: ...
    @property
    def packet_ticks(self) -> float: ...
    @packet_ticks.setter
    def packet_ticks(self, arg: float, /) -> None: ...
    @property
    def message_ticks(self) -> int: ...
    @message_ticks.setter
    def message_ticks(self, arg: int, /) -> None: ...
    @property
    def injection_room(self) -> int: ...
    @injection_room.setter
    def injection_room(self, arg: int, /) -> None: ...
    @property
    def transit_first(self) -> bool: ...
    @transit_first.setter
    def transit_first(self, arg: bool, /) -> None: ...
    @property
    def fifo_by_direction(self) -> bool: ...
    @fifo_by_direction.setter
    def fifo_by_direction(self, arg: bool, /) -> None: ...
    @property
    def early_release(self) -> bool: ...
    @early_release.setter
    def early_release(self, arg: bool, /) -> None: ...
    @property
    def arbitration(self) -> Literal["round-robin", "longest-queue", "farthest"]: ...
    @arbitration.setter
    def arbitration(self, arg: Literal["round-robin", "longest-queue", "farthest"], /) -> None: ...
    @property
    def tie(self) -> Literal["plus", "parity", "random"]: ...
    @tie.setter
    def tie(self, arg: Literal["plus", "parity", "random"], /) -> None: ...

@overload
def simulate_all_to_all(
    hardware: TorusHardware,
    permutation: Annotated[
        NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    bytes: int,
    matrix: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    | None,
    packets_a_visit: int,
    seed: int,
    finish: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_packets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> dict[str, int]: ...
@overload
def simulate_all_to_all(
    hardware: SwitchHardware,
    permutation: Annotated[
        NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    bytes: int,
    matrix: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    | None,
    packets_a_visit: int,
    seed: int,
    finish: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_packets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> dict[str, int]: ...
@overload
def simulate_messages(
    hardware: TorusHardware,
    source: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    destination: Annotated[
        NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    flags: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    heading: Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    receivers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    after_first: Annotated[
        NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    after: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segment: int,
    seed: int,
    finish: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_packets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> dict[str, int]: ...
@overload
def simulate_messages(
    hardware: SwitchHardware,
    source: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    destination: Annotated[
        NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    flags: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    heading: Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    receivers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    after_first: Annotated[
        NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    after: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segment: int,
    seed: int,
    finish: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_packets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    link_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> dict[str, int]: ...

class SwitchNetwork:
    def __init__(
        self,
        n_nodes: int,
        n_vertices: int,
        tail: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        length: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        rises: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        region: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        middles: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...
    def n_channels(self, detours: bool) -> int: ...
    @property
    def memory(self) -> int: ...

class SwitchHardware:
    def __init__(self, network: SwitchNetwork) -> None: ...
    @property
    def granule(self) -> int: ...
    @granule.setter
    def granule(self, arg: int, /) -> None: ...
    @property
    def header(self) -> int: ...
    @header.setter
    def header(self, arg: int, /) -> None: ...
    @property
    def payload(self) -> int: ...
    @payload.setter
    def payload(self, arg: int, /) -> None: ...
    @property
    def ticks(self) -> list[list[int]]: ...
    @ticks.setter
    def ticks(self, arg: Sequence[Sequence[int]], /) -> None: ...
    @property
    def hop_ticks(self) -> list[int]: ...
    @hop_ticks.setter
    def hop_ticks(self, arg: Sequence[int], /) -> None: ...
    @property
    def channel(self) -> int: ...
    @channel.setter
    def channel(self, arg: int, /) -> None: ...
    @property
    def message_ticks(self) -> int: ...
    @message_ticks.setter
    def message_ticks(self, arg: int, /) -> None: ...
    @property
    def message_gap(self) -> list[int]: ...
    @message_gap.setter
    def message_gap(self, arg: Sequence[int], /) -> None: ...
    @property
    def routing(self) -> Literal["minimal", "valiant", "ugal", "ugal-g", "ugal-l", "ugal-l-vc"]: ...
    @routing.setter
    def routing(
        self, arg: Literal["minimal", "valiant", "ugal", "ugal-g", "ugal-l", "ugal-l-vc"], /
    ) -> None: ...

class Routes:
    @overload
    def __init__(
        self,
        shape: Sequence[int],
        wrap: Sequence[bool],
        vertex: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        n_links: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        sizes: Sequence[int],
        cables: Sequence[int],
        consecutive: Sequence[bool],
        vertex: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        n_links: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        children: Sequence[int],
        parents: Sequence[int],
        vertex: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        n_links: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        next: Annotated[
            NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        vertex: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        n_links: int,
    ) -> None: ...
    def add_loads(
        self,
        source: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        destination: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        bytes: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        loads: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    ) -> None: ...
    def add_detour_loads(
        self,
        head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        region: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        middles: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        source: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        destination: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        bytes: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        loads: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    ) -> None: ...
    def count_hops(
        self,
        source: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        destination: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        hops: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    ) -> None: ...
