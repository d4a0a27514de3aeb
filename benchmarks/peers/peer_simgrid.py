"""An all-to-all on SimGrid's torus: prints a JSON object of its simulated and its processor time.

    /usr/bin/python3 peers/peer_simgrid.py 4x4x4 1024

Links carry 154 MB/s each way and are shared as flows (CM02), without the corrections for TCP. Routes are
dimension-ordered. It stands alone: SimGrid comes with Debian's own Python.
"""

import json
import sys
import tempfile
import time

import simgrid

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="torus" prefix="node" suffix="" radical="0-{last}" speed="1Gf" bw="154MBps" lat="70ns"
           topology="TORUS" topo_parameters="{shape}" sharing_policy="SPLITDUPLEX"/>
</platform>
"""


def all_to_all(hosts: list, n_bytes: int) -> None:
    """Start all messages at once and wait for them."""
    n = len(hosts)
    pairs = ((a, (a + shift) % n) for shift in range(1, n) for a in range(n))
    messages = [simgrid.Comm.sendto_async(hosts[a], hosts[b], n_bytes) for a, b in pairs]
    simgrid.Comm.wait_all(messages)


def main() -> None:
    sizes, n_bytes = sys.argv[1].split("x"), int(sys.argv[2])
    n = 1
    for size in sizes:
        n *= int(size)
    settings = ["network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0"]
    engine = simgrid.Engine(["simgrid", "--log=root.thresh:error", *(f"--cfg={item}" for item in settings)])
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(PLATFORM.format(last=n - 1, shape=",".join(sizes)))
        file.flush()
        engine.load_platform(file.name)
    hosts = [simgrid.Host.by_name(f"node{i}") for i in range(n)]
    simgrid.Actor.create("all", hosts[0], all_to_all, hosts, n_bytes)
    begin = time.process_time()
    engine.run()
    took = time.process_time() - begin
    version = ".".join(map(str, simgrid.Engine.version)) if hasattr(simgrid.Engine, "version") else ""
    print(json.dumps({"version": version, "seconds": simgrid.Engine.clock, "cpu": took}))


if __name__ == "__main__":
    main()
