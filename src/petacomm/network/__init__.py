"""What a communication asks of a machine, and how long that takes: by messages, by links, by packets."""

from petacomm.network.alpha_beta import predict
from petacomm.network.closed_forms import alltoall_peak
from petacomm.network.communication_load import Load, Phase, Share, busiest
from petacomm.network.hardware import Hardware, hardware_of
from petacomm.network.link_load import Traffic, dense, link_loads
from petacomm.network.packets import POLICIES, Messages, PacketSimulator, Policy, Run
from petacomm.network.routes import hops_between, routed_loads

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
