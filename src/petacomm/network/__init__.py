"""Performance models of communication: alpha-beta, link loads and packet simulation.

Must not import: `petacomm.sharing` and the rooms above it, nor `petacomm.collectives`.
"""

from petacomm.network.alpha_beta import predict_seconds
from petacomm.network.closed_forms import alltoall_peak_bandwidth
from petacomm.network.communication_load import Load, LoadPhase, RankLoad, busiest_load
from petacomm.network.hardware import Hardware, make_hardware
from petacomm.network.link_load import Traffic, link_loads
from petacomm.network.packets import POLICIES, PacketMessages, PacketSimulator, RouterPolicy, SimulationResult
from petacomm.network.routes import hops_between, routed_link_loads

__all__ = [
    "POLICIES",
    "Hardware",
    "Load",
    "LoadPhase",
    "PacketMessages",
    "PacketSimulator",
    "RankLoad",
    "RouterPolicy",
    "SimulationResult",
    "Traffic",
    "alltoall_peak_bandwidth",
    "busiest_load",
    "hops_between",
    "link_loads",
    "make_hardware",
    "predict_seconds",
    "routed_link_loads",
]
