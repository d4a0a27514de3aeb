"""What a communication asks of a machine, and how long that takes."""

from petamap.comm.network.alpha_beta import predict
from petamap.comm.network.load import Load, Phase, Share, busiest

__all__ = ["Load", "Phase", "Share", "busiest", "predict"]
