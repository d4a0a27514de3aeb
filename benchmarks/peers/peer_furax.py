"""P^T N^-1 P by furax: pointing kept as indices and angles, overlap-save in JAX on one core."""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import clock
import jax
import jax.numpy as jnp
import numpy as np
from furax import IndexOperator, SymmetricBandToeplitzOperator
from furax.obs import LinearPolarizerOperator, QURotationOperator
from furax.obs.stokes import StokesIQU

jax.config.update("jax_enable_x64", True)


def applying(scan: dict[str, np.ndarray], dtype: type):
    """Return what applies P^T N^-1 P to a map of ones, compiled."""
    sky = StokesIQU.ones((12 * int(scan["n_side"]) ** 2,), dtype)

    @jax.jit
    def apply(pixels, angles, lags, x):
        index = IndexOperator((..., pixels), in_structure=x.structure)
        turn = QURotationOperator(angles=angles, in_structure=index.out_structure)
        pointing = LinearPolarizerOperator(in_structure=turn.out_structure) @ turn @ index
        inverse_noise = SymmetricBandToeplitzOperator(lags, in_structure=pointing.out_structure)
        return (pointing.T @ inverse_noise @ pointing).reduce()(x)

    parts = (
        jnp.asarray(scan["pixels"]),
        jnp.asarray(scan["angles"], dtype),
        jnp.asarray(scan["lags"], dtype),
    )
    return lambda: jax.block_until_ready(apply(*parts, sky))


def main() -> None:
    """Time both precisions."""
    scan = clock.scan()
    for dtype in (np.float64, np.float32):
        apply = applying(scan, dtype)
        clock.report("furax", "apply", scan["pixels"].size, apply, f" {np.dtype(dtype).name}")


if __name__ == "__main__":
    main()
