"""What a communication asks of a machine, and how long that takes: by messages, by links, by packets."""

from petamap.comm.network.alpha_beta import predict
from petamap.comm.network.closed_forms import alltoall_peak
from petamap.comm.network.hardware import Hardware, hardware_of
from petamap.comm.network.link_load import Traffic, dense, link_loads
from petamap.comm.network.load import Load, Phase, Share, busiest
from petamap.comm.network.packets import POLICIES, Messages, PacketSimulator, Policy, Run
from petamap.comm.network.ways import hops_between, routed_loads

__all__ = [
    "POLICIES",
    "Hardware",
    "Load",
    "Messages",
    "PacketSimulator",
    "Phase",
    "Policy",
    "Run",
    "Share",
    "Traffic",
    "alltoall_peak",
    "busiest",
    "dense",
    "hardware_of",
    "hops_between",
    "link_loads",
    "predict",
    "routed_loads",
]
