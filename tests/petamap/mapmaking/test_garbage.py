"""What a run has used is freed with its result: a notebook makes one map after the other."""

import gc

import numpy as np
import pytest
from montecarlo_runs import TINY, configured, made

import petamap

CHANGES = {
    "plain": "",
    "splits": '[[split]]\nname = "half"\nby = "time"\n',
    "templates": '[[source]]\nkind = "offsets"\n[[source]]\nkind = "polynomials"\norder = 1\n',
    "baselines": '[[source]]\nkind = "baselines"\nlength = "1 h"\n',
    "products": "[products]\nresidual = true\nfiltered = true\n",
    "glitches": '[glitches]\nfind = "glitches"\n',
}


def arrays_map(_):
    rng = np.random.default_rng(1)
    angles = rng.uniform(0, 3, (3, 2, 5000))
    petamap.make_map(
        angles[0],
        *angles,
        n_side=4,
        sample_rate="10 Hz",
        noise=petamap.OneOverF(1.0, 0.05, 1e-3),
        progress=False,
    )


def monte_carlo(folder):
    made(folder, "montecarlo.realizations=2", "products.overwrite=true")


WORK = {
    name: lambda _, text=text: petamap.run(configured(text=TINY + text)) for name, text in CHANGES.items()
}


@pytest.mark.parametrize(
    "work", [*WORK.values(), arrays_map, monte_carlo], ids=[*WORK, "arrays", "Monte Carlo"]
)
def test_no_object_of_a_run_waits_for_the_collector(work, tmp_path):
    work(tmp_path)  # what is cached for the next one stays
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work(tmp_path)
        gc.collect()
        left = {
            type(one).__name__
            for one in gc.garbage
            if type(one).__module__.startswith(("petamap", "petacomm"))
        }
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == set()
