"""What stands in the place of a file and is none: each reader says so at once, and waits for nothing."""

import os
import signal

import pytest

from petacomm.base.errors import UserError
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.job import load_mapping_job
from petacomm.network.fit import fit_csv
from petacomm.topology.detect.coordinates import read_coordinates
from petacomm.topology.detect.node_layout import read_hwloc
from petacomm.topology.detect.slurm import read_topology_conf
from petacomm.topology.machine import load_machine
from petamap.data.config import load_config
from petamap.data.formats.amplitudes import read_amplitudes
from petamap.data.formats.madmap1 import Madmap1Stream, read_image_layout
from petamap.data.formats.madmap1_filters import read_noise_filters
from petamap.data.formats.table_file import open_table
from petamap.data.formats.toast import ToastFile, ToastOptions
from petamap.data.formats.volume import open_volume
from petamap.data.run_summary import Summary
from petamap.data.time_constants import read_time_constants
from petamap.mapmaking.checkpoint_file import read_head
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.store import Store
from petamap.pointing.antenna import read_antenna_log
from petamap.pointing.focalplane import read_focalplane_toml, read_rimo
from petamap.simulation.noise import read_psd
from petamap.simulation.pysm import read_bandpass
from petamap.sky.covariance_file import read_pixel_covariance
from petamap.sky.map_file import read_map
from petamap.sky.observation_matrix_file import read_observation_matrix
from petamap.sky.spectrum_file import read_spectrum_file
from petamap.spectra.bandpower_files import read_bandpowers

SECONDS = 5  # that no refusal takes

READERS = {
    "run.toml": load_config,
    "run.xml": load_config,
    "map.fits": read_map,
    "map.fits.gz": read_map,
    "cl.fits": read_spectrum_file,
    "cl.dat": read_spectrum_file,
    "bandpowers.fits": read_bandpowers,
    "covariance.fits": read_pixel_covariance,
    "matrix.fits": read_observation_matrix,
    "amplitudes.fits": read_amplitudes,
    "summary.json": lambda path: Summary.read(path.parent),
    "run.checkpoint": lambda path: read_head(path, "begin anew"),
    "mc.h5": read_results,
    "store.h5": Store,
    "day.h5": lambda path: ToastFile(path, ToastOptions(path=str(path))),
    "volume.h5": open_volume,
    "day.csv": lambda path: open_table(path, "auto", "", ""),
    "table.fits": lambda path: open_table(path, "auto", "", ""),
    "stream": Madmap1Stream,
    "stream.gz": Madmap1Stream,
    "layout.fits": read_image_layout,
    "filters.tar.gz": read_noise_filters,
    "log.gz": read_antenna_log,
    "plane.toml": read_focalplane_toml,
    "rimo.fits": read_rimo,
    "taus.txt": read_time_constants,
    "psd.txt": read_psd,
    "band.txt": lambda path: read_bandpass(str(path)),
    "machine.toml": lambda path: load_machine(str(path)),
    "job.toml": load_mapping_job,
    "graph.csv": read_graph,
    "graph.mtx": read_graph,
    "coordinates.txt": read_coordinates,
    "hwloc.xml": read_hwloc,
    "topology.conf": read_topology_conf,
    "timings.csv": lambda path: fit_csv(str(path)),
}


@pytest.fixture(autouse=True)
def alarm():
    def ring(*_):
        raise AssertionError("the reader waits")

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make(kind, path):
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "dangling link":
        path.symlink_to(path.with_name("nothing"))


@pytest.mark.parametrize("kind", ["FIFO", "device", "loop", "dangling link", "nothing"])
def test_each_reader_refuses_what_is_no_file(tmp_path, kind):
    for name, read in READERS.items():
        path = tmp_path / name
        make(kind, path)
        signal.alarm(SECONDS)
        with pytest.raises(UserError) as raised:
            read(path)
        signal.alarm(0)
        said = str(raised.value)
        assert path.name in said or str(tmp_path) in said, (name, said)
        if kind in ("FIFO", "device"):
            assert f"is a {kind}, no file" in said, (name, said)


def test_a_folder_is_no_file(tmp_path):
    takes_folders = {"filters.tar.gz", "mc.h5", "summary.json"}
    for name, read in READERS.items():
        if name not in takes_folders:
            (tmp_path / name).mkdir()
            with pytest.raises(UserError) as raised:
                read(tmp_path / name)
            assert name in str(raised.value)


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "taus").write_text("one 0.01\n")
    (tmp_path / "link").symlink_to(tmp_path / "taus")
    assert read_time_constants(tmp_path / "link") == {"one": 0.01}
