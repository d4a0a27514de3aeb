"""P^T N^-1 P by furax on the device that JAX finds: pointing kept as indices and angles."""

import time

import clock
import jax
import numpy as np
from peer_furax import applying


def main() -> None:
    """Time both precisions, best of three passes after one that compiles."""
    scan = clock.scan()
    for dtype in (np.float64, np.float32):
        apply, best = applying(scan, dtype), np.inf
        apply()
        for _ in range(3):
            begin = time.perf_counter()
            apply()
            best = min(best, time.perf_counter() - begin)
        rate = scan["pixels"].size / best / 1e9
        print(f"  furax, {np.dtype(dtype).name}, on {jax.devices()[0]}: {rate:.2f} G samples/s", flush=True)


if __name__ == "__main__":
    main()
