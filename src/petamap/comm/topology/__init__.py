"""Machines: what their nodes and networks can do, from files."""

from petamap.comm.topology.machine import Machine, load_machine, machines

__all__ = ["Machine", "load_machine", "machines"]
