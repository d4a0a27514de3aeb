# %% [markdown]
# # Choosing a collective
#
# Which algorithm of an all-reduce is fastest depends on the machine, the ranks and the bytes. petacomm has
# algorithms as data, so they can be looked at, checked and predicted before they are run.

# %%
import petacomm

call = petacomm.CollectiveCall("allreduce", 8, 1000)
schedule = petacomm.make_schedule(call, "ring")
petacomm.check_schedule(schedule)  # every rank ends with the right elements, or an error
schedule

# %% [markdown]
# Its rounds are messages:

# %%
for number, one in enumerate(schedule.rounds()):
    print(number, one)

# %% [markdown]
# Predicted seconds of all algorithms on a machine, from few bytes to many:

# %%
import matplotlib.pyplot as plt

sizes = [32, 512, 8192, 131072, 2097152]
seconds = {}
for n_bytes in sizes:
    query = petacomm.CollectiveQuery("allreduce", "bluegene-l", shape="4x4x4", n_bytes=n_bytes)
    for one in petacomm.predict_algorithms(*query.resolve()):
        if one.seconds is not None:
            seconds.setdefault(one.algorithm, []).append((n_bytes, one.seconds * 1e6))

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, pairs in seconds.items():
    axes.loglog(*zip(*pairs, strict=True), label=name)
axes.set(xlabel="bytes", ylabel="µs", title="An all-reduce on 64 nodes of BlueGene/L, predicted")
_ = axes.legend(fontsize="small")

# %% [markdown]
# The fastest of them, as a name that `petacomm.allreduce(comm, values, algorithm=...)` takes:

# %%
for n_bytes in (1024, 1048576):
    call, model = petacomm.CollectiveQuery(
        "allreduce", "bluegene-l", shape="4x4x4", n_bytes=n_bytes
    ).resolve()
    print(n_bytes, petacomm.choose_algorithm(call, model))

# %% [markdown]
# [Collectives](../docs/petacomm/collectives.md) has the rest: executed over MPI, timed, drawn.
