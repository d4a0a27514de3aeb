"""Templates of PySM's models d1 and s1, uniform skies, for tests that fetch nothing."""

import numpy as np

import petamap

N_SIDE, N_PIX = 8, 768
TEMPLATES = {  # of d1 and s1: amplitudes in uK_RJ, index, temperature
    "dust_t_new": 300.0, "dust_q_new": 20.0, "dust_u_new": -10.0, "dust_beta": 1.6, "dust_temp": 20.0,
    "synch_t_new": 5e7, "synch_q_new": 40.0, "synch_u_new": 25.0, "synch_beta": -3.0,
}  # fmt: skip
UNITS = {"dust_temp": "K", "dust_beta": "", "synch_beta": ""}


def write_pysm_templates(folder):
    """Write the templates below a folder, which PYSM_LOCAL_DATA then names."""
    (folder / "pysm_2").mkdir()
    for name, value in TEMPLATES.items():
        petamap.write_map(
            folder / "pysm_2" / f"{name}.fits", np.full(N_PIX, value), petamap.Healpix(N_SIDE), names=["I"],
            unit=UNITS.get(name, "uK_RJ"), run_id="a", frame="galactic",
        )  # fmt: skip
