"""How sparse may pointing be? Knots on a satellite's motion, as few as an error allows.

python examples/compressed_pointing.py
"""

import numpy as np

from petamap.pointing import scan_strategies as scan
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.motion import sample_motion
from petamap.sky.healpix import Healpix

RATE, N_SAMP = 50.0, 200_000


def main() -> None:
    """Lay knots for three tolerances, then expand pixels of one detector."""
    motion = scan.satellite(spin_period=60.0)
    for tolerance in (0.1, 1e-3, 1e-5):
        boresight, error = sample_motion(motion, N_SAMP, RATE, tolerance_arcsec=tolerance)
        size = boresight.knots.nbytes / N_SAMP
        print(f"{tolerance:6g} arcsec allowed: a knot every {boresight.spacing:4.0f} samples, "
              f"error {error.max_arcsec:.1e} arcsec, {size:.3f} bytes a sample")  # fmt: skip
    pointing = CompressedPointing(boresight, [[0.0, 0.0, 0.0, 1.0]])
    pixels, angles = np.empty(1000, np.int32), np.empty(1000, np.uint32)
    pointing.expand(Healpix(256, nest=True), 0, 5000, 6000, pixels, angles)
    print("first pixels of samples 5000 to 6000:", pixels[:3], "and response angles in degrees:",
          np.round(angles[:3] * (360 / 2**32), 3))  # fmt: skip


if __name__ == "__main__":
    main()
