"""Messages and collectives of an OTF2 trace, read by OTF2's own library.

Run as a program, by `otf2_trace`: a library that reads a damaged trace may end its process.

    python -m petacomm.recording.otf2_events TRACE RECORDING
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from petacomm.base.errors import DataError, UserError
from petacomm.recording.collective_calls import CollectiveCalls, CollectiveRow
from petacomm.recording.otf2_collectives import EQUAL, CollectiveEvent, block_bytes, block_message
from petacomm.recording.otf2_definitions import TraceDefinitions, TracedLocation, constant_name
from petacomm.recording.recording import CALLS, MESSAGES, Recording, summed

_NUMBER_OF = {name: number for number, name in enumerate(CALLS)}
_BY_BLOCKS = ("gatherv", "scatterv", "allgatherv")
_MEMORY = 16 << 30  # bytes that the library may take of a trace that claims too much
_NO_ROOT = 2**32 - 1


class TraceEvents:
    """Callbacks of events, which count; no order of ranks in time is needed."""

    def __init__(self, definitions: TraceDefinitions) -> None:
        self.definitions = definitions
        self.rank = 0
        self.direct: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0])
        self.collectives: defaultdict[tuple[int, int], Counter[CollectiveRow]] = defaultdict(Counter)
        self.warnings: set[str] = set()
        self.failure: Exception | None = None
        self._callbacks: list[Callable[..., None]] = []  # which the library calls as long as they live

    def _message(
        self, call: str, group: int, source: int, target: int, n_bytes: int, messages: int = 1
    ) -> None:
        bits = (n_bytes // messages).bit_length()
        counter = self.direct[0, _NUMBER_OF[call], group, source, target, bits]
        counter[0] += messages
        counter[1] += n_bytes

    def guarded(self, count: Callable[..., None]) -> Callable[..., None]:
        """Return a callback that counts an event; the error of one that does not fit is kept."""

        def callback(*event: Any) -> None:  # location, time, position, user's data, attributes, its own
            try:
                count(*event[5:])
            except Exception as error:
                self.failure = error
                raise

        self._callbacks.append(callback)
        return callback

    def send(self, receiver: int, comm: int, _tag: int, n_bytes: int, _request: int = 0) -> None:
        group = self.definitions.group(comm, self.rank)
        self._message("send", group.number, self.rank, group.remote[receiver], n_bytes)

    def put(self, window: int, remote: int, n_bytes: int, _matching: int) -> None:
        group = self.definitions.window(window, self.rank)
        self._message("put", group.number, self.rank, group.ranks[remote], n_bytes)

    def get(self, window: int, remote: int, n_bytes: int, _matching: int) -> None:
        group = self.definitions.window(window, self.rank)
        self._message("get", group.number, group.ranks[remote], self.rank, n_bytes)

    def atomic(self, window: int, remote: int, _kind: Any, sent: int, received: int, _matching: int) -> None:
        group = self.definitions.window(window, self.rank)
        if sent:
            self._message("accumulate", group.number, self.rank, group.ranks[remote], sent)
        if received:
            self._message("get", group.number, group.ranks[remote], self.rank, received)

    def collective(self, operation: Any, comm: int, root: int, sent: int, received: int) -> None:
        call = constant_name(operation).lower()
        group = self.definitions.group(comm, self.rank)
        if call not in _NUMBER_OF or len(group.ranks) == 1 or group.ranks is not group.remote:
            return
        root = 0 if root == _NO_ROOT else root
        group.ranks[root]
        event = CollectiveEvent(call, len(group.ranks), group.own[self.rank], root, sent, received)
        if call in _BY_BLOCKS:
            if message := block_message(event):
                source, target, messages, n_bytes = message
                ends = group.ranks[source], group.ranks[target]
                self._message(call, group.number, *ends, n_bytes, messages)
            return
        if call in EQUAL:
            self.warnings.add(f"blocks of {call} are taken to be equal: a trace has but their sums")
        row = CollectiveRow(0, _NUMBER_OF[EQUAL.get(call, call)], group.number, root, 0, block_bytes(event))
        self.collectives[group.number, event.own][row] += 1

    def recording(self, creator: str) -> tuple[Recording, list[str]]:
        """Return the recording of all events so far, and warnings."""
        calls = CollectiveCalls()
        for (group, own), counts in self.collectives.items():
            calls.add(group, own, counts)
        rows = [(*key, *counter) for key, counter in self.direct.items()]
        groups = self.definitions.groups
        direct = summed(np.array(rows, MESSAGES))
        title = f"OTF2 trace of {creator or 'an unnamed writer'}"
        made = Recording(self.definitions.n_ranks, title, groups, direct, calls.table())
        return made, [*sorted(self.warnings), *calls.warnings(groups)]


def read_events(path: str) -> tuple[Recording, list[str]]:
    """Return what the ranks of a trace sent, and warnings; one location after another is read."""
    import _otf2  # the functions of the C library: classes of otf2 know no intercommunicators (3.2)

    handle = _otf2.Reader_Open(path)
    _otf2.Reader_SetSerialCollectiveCallbacks(handle)
    definitions = _read_definitions(_otf2, handle)
    locations = definitions.locations()
    events = TraceEvents(definitions)
    for location in locations:
        _otf2.Reader_SelectLocation(handle, location.number)
    _read_local_definitions(_otf2, handle, locations)
    _otf2.Reader_OpenEvtFiles(handle)
    callbacks = _event_callbacks(_otf2, events)
    for location in locations:
        events.rank = location.rank
        if location.n_events:
            _read_location(_otf2, handle, location, callbacks, events)
    _otf2.Reader_CloseEvtFiles(handle)
    recording = events.recording(" ".join(str(_otf2.Reader_GetCreator(handle)).split()))
    _otf2.Reader_Close(handle)
    return recording


def _read_definitions(_otf2: Any, handle: Any) -> TraceDefinitions:
    definitions = TraceDefinitions()
    made = _otf2.GlobalDefReaderCallbacks_New()
    _otf2.GlobalDefReaderCallbacks_SetStringCallback(made, definitions.add_string)
    _otf2.GlobalDefReaderCallbacks_SetLocationCallback(made, definitions.add_location)
    _otf2.GlobalDefReaderCallbacks_SetGroupCallback(made, definitions.add_group)
    _otf2.GlobalDefReaderCallbacks_SetCommCallback(made, definitions.add_communicator)
    _otf2.GlobalDefReaderCallbacks_SetInterCommCallback(made, definitions.add_intercommunicator)
    _otf2.GlobalDefReaderCallbacks_SetRmaWinCallback(made, definitions.add_window)
    reader = _otf2.Reader_GetGlobalDefReader(handle)
    _otf2.Reader_RegisterGlobalDefCallbacks(handle, reader, made, None)
    _otf2.Reader_ReadAllGlobalDefinitions(handle, reader)
    _otf2.Reader_CloseGlobalDefReader(handle, reader)
    return definitions


def _read_local_definitions(_otf2: Any, handle: Any, locations: Sequence[TracedLocation]) -> None:
    """Read by which numbers each location knows what is defined for all; traces need not have such files."""
    try:
        _otf2.Reader_OpenDefFiles(handle)
    except _otf2.Error:
        return
    for location in locations:
        reader = _otf2.Reader_GetDefReader(handle, location.number)
        if reader:
            _otf2.Reader_ReadAllLocalDefinitions(handle, reader)
            _otf2.Reader_CloseDefReader(handle, reader)
    _otf2.Reader_CloseDefFiles(handle)


def _event_callbacks(_otf2: Any, events: TraceEvents) -> Any:
    made = _otf2.EvtReaderCallbacks_New()
    _otf2.EvtReaderCallbacks_SetMpiSendCallback(made, events.guarded(events.send))
    _otf2.EvtReaderCallbacks_SetMpiIsendCallback(made, events.guarded(events.send))
    _otf2.EvtReaderCallbacks_SetMpiCollectiveEndCallback(made, events.guarded(events.collective))
    _otf2.EvtReaderCallbacks_SetRmaPutCallback(made, events.guarded(events.put))
    _otf2.EvtReaderCallbacks_SetRmaGetCallback(made, events.guarded(events.get))
    _otf2.EvtReaderCallbacks_SetRmaAtomicCallback(made, events.guarded(events.atomic))
    return made


def _read_location(
    _otf2: Any, handle: Any, location: TracedLocation, callbacks: Any, events: TraceEvents
) -> None:
    reader = _otf2.Reader_GetEvtReader(handle, location.number)
    _otf2.Reader_RegisterEvtCallbacks(handle, reader, callbacks, None)
    try:
        n_read = _otf2.Reader_ReadAllLocalEvents(handle, reader)
    except _otf2.Error:
        if events.failure is None:
            raise
        what = f"an event of rank {events.rank} does not fit the definitions: {events.failure!r}"
        raise DataError(what, mend="is the trace whole?") from None
    _otf2.Reader_CloseEvtReader(handle, reader)
    if n_read != location.n_events:
        what = f"location {location.number} has {n_read} of {location.n_events} events"
        raise DataError(what, mend="is the trace whole?")


def main(path: str, out: str) -> None:
    """Write the recording of a trace, and print JSON: its warnings, or what is wrong."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        recording, warnings = read_events(path)
        recording.save(out)
        print(json.dumps({"warnings": warnings}))
    except UserError as error:
        print(json.dumps({"error": error.what, "mend": error.mend}))
    except Exception as error:  # of OTF2's library, or of what a damaged trace makes of definitions
        print(json.dumps({"error": f"cannot be read: {type(error).__name__}: {error}", "mend": None}))


if __name__ == "__main__":
    main(*sys.argv[1:])
