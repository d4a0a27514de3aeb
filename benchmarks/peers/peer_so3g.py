"""so3g: the pointing matrix (pixels and spin projection factors), and binning that expands it on the way."""

import clock
import numpy as np
import so3g  # noqa: F401  (loads the compiled library)
from so3g.proj import Assembly, FocalPlane, ProjectionistHealpix, quat


def main() -> None:
    """Time both."""
    scan = clock.scan()
    # so3g's quaternions begin with the scalar
    boresight = quat.G3VectorQuat(np.roll(scan["boresight"], 1, axis=1))
    assembly = Assembly.attach(boresight, FocalPlane(np.roll(scan["detectors"], 1, axis=1)))
    sky = ProjectionistHealpix.for_healpix(int(scan["n_side"]), ordering="NEST")
    n_samp = len(scan["detectors"]) * len(scan["boresight"])
    clock.report("so3g", "pointing", n_samp, lambda: sky.get_pointing_matrix(assembly))
    signal = np.ones((len(scan["detectors"]), len(scan["boresight"])), np.float32)
    maps = sky.zeros(3)
    clock.report(
        "so3g", "binning", n_samp, lambda: sky.to_map(signal, assembly, output=maps), " with pointing"
    )


if __name__ == "__main__":
    main()
