"""The wire side in another field: a Poisson problem, its elements dealt to ranks, nodes shared at the seams.

mpiexec -n 4 python examples/finite_elements.py
"""

import numpy as np

from petacomm.mpi import Communicator, collective_errors, world
from petacomm.reduction import ReductionPlan
from petacomm.sharing import IndexMap

N = 64  # cells a side of the unit square, two triangles each
# stiffness of a right triangle (right angle, along x, along y) with linear elements
STIFFNESS = 0.5 * np.array([[2, -1, -1], [-1, 1, 0], [-1, 0, 1]])


def triangles() -> np.ndarray:
    """Nodes of all triangles, (n, 3), numbered row by row, the right angle first."""
    j, i = np.divmod(np.arange(N * N), N)
    corner = j * (N + 1) + i
    lower = np.stack([corner, corner + 1, corner + N + 1], axis=1)
    return np.concatenate([lower, (2 * corner + N + 2)[:, None] - lower])


def solve(comm: Communicator) -> tuple[int, int, float]:
    """Solve -laplace u = 2 x (1 - x) + 2 y (1 - y) by conjugate gradients; u = x (1 - x) y (1 - y).

    Returns the number of nodes, the iterations, and the largest error of a node.
    """
    mine = triangles()[comm.rank :: comm.size]  # round-robin: the hardest distribution
    nodes, local = np.unique(mine, return_inverse=True)
    local = local.reshape(mine.shape)
    plan = ReductionPlan(IndexMap(comm, nodes.astype(np.int64)))
    y, x = np.divmod(nodes, N + 1) / np.array([[N], [N]])
    inside = (x > 0) & (x < 1) & (y > 0) & (y < 1)

    def assemble(per_element: np.ndarray) -> np.ndarray:
        rows = np.zeros(len(nodes))
        np.add.at(rows, local, per_element)
        return plan.allreduce(rows, exact=True) * inside

    def dot(a: np.ndarray, b: np.ndarray) -> float:
        return float(comm.allreduce(np.array([a[plan.owned] @ b[plan.owned]]))[0])

    source = 2 * x * (1 - x) + 2 * y * (1 - y)
    r = assemble(source[local] / (6 * N * N))
    u, p, norm = np.zeros(len(nodes)), r.copy(), dot(r, r)
    enough, iterations = 1e-20 * norm, 0
    while norm > enough:
        q = assemble(p[local] @ STIFFNESS)
        alpha = norm / dot(p, q)
        u += alpha * p
        r -= alpha * q
        last, norm = norm, dot(r, r)
        p = r + norm / last * p
        iterations += 1
    error = comm.max(float(abs(u - x * (1 - x) * y * (1 - y)).max(initial=0.0)))
    return plan.n_global, iterations, error


if __name__ == "__main__":
    world_comm = world()
    with collective_errors(world_comm):
        n_nodes, n_iterations, largest = solve(world_comm)
    if world_comm.rank == 0:
        print(f"{n_nodes} nodes on {world_comm.size} ranks: {n_iterations} iterations, error {largest:.0e}")
