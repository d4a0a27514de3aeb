"""Files that HPE's PALS writes for the processes of an application."""

import struct


def apinfo(hosts, places, version=5, **changed):
    """Return the file of an application, by the rules of `struct` for C's members and their alignment."""
    # Tables: profiles, commands, processes, nodes, network cards.
    sizes, counts = [40, 12, 12, 68, 48], [0, 1, len(places), len(hosts), 0]
    end = 136 if version == 1 else 160
    offsets = []
    for size, count in zip(sizes, counts, strict=True):
        offsets.append(end)
        end += size * count
    values = {"version": version, "counts": counts, "offsets": offsets, "sizes": sizes} | changed
    tables = [
        number
        for row in zip(values["sizes"], values["offsets"], values["counts"], strict=True)
        for number in row
    ]
    more = ("", []) if version == 1 else ("NNN", [end, 0, end])
    header = struct.pack("@iN" + "NNi" * 5 + "0N" + more[0], values["version"], end, *tables, *more[1])
    text = struct.pack("@iii", len(places), 4, 1)
    text += b"".join(struct.pack("@iii", slot, 0, node) for node, slot in places)
    text += b"".join(struct.pack("@i64s", -1, host.encode()) for host in hosts)
    return header + text
