# %% [markdown]
# # Placing a job's ranks
#
# Ranks that talk to each other often should be near each other on the machine. Here 64 ranks exchange halos
# on a torus of 4 x 4 x 4 nodes; the launcher would place them in an order that knows nothing of that.

# %%
import numpy as np

import petacomm

shape = (8, 8)  # of the program's own grid of ranks
ranks = np.arange(64).reshape(shape)
source = np.concatenate([ranks.ravel(), ranks.ravel()])
target = np.concatenate([np.roll(ranks, -1, axis).ravel() for axis in (0, 1)])
graph = petacomm.CommunicationGraph.from_edges(64, source, target, 65536.0)
graph

# %%
resources = petacomm.Resources(petacomm.Torus((4, 4, 4)))
resources

# %%
task = petacomm.MappingTask(graph, resources)
result = petacomm.map_ranks(task)
result

# %%
import matplotlib.pyplot as plt

names = [row.name for row in result.rows]
figure, axes = plt.subplots(figsize=(6, 2.5), layout="constrained")
axes.barh(names, [row.load / 1e3 for row in result.rows])
axes.set(xlabel="kB on the busiest link", title="One exchange")

# %% [markdown]
# `petacomm map` does the same from a file and writes what the launcher reads:
# [mapping](../docs/petacomm/mapping.md).
