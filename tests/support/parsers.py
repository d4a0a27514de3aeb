"""All functions that read files, by a name that such a file may have, and small files that they take."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from apinfo_files import apinfo

from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.job import load_mapping_job
from petacomm.mapping.openatom.maps import ObjectMaps
from petacomm.network.fit import fit_csv
from petacomm.recording.ipm import read_ipm
from petacomm.recording.mpip import read_mpip
from petacomm.recording.recording import COLLECTIVES, MESSAGES, RankGroup, Recording, load_recording
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.schedule.msccl import read_msccl
from petacomm.schedule.mscclpp import read_mscclpp
from petacomm.schedule.mscclpp_plan import mscclpp_plan
from petacomm.topology.detect.coordinates import read_coordinates
from petacomm.topology.detect.node_layout import read_hwloc
from petacomm.topology.detect.pals import pals_allocation
from petacomm.topology.detect.pbs import pbs_allocation
from petacomm.topology.detect.slurm import read_topology_conf
from petacomm.topology.machine import load_machine
from petamap.data.config import load_config
from petamap.data.formats.amplitudes import read_amplitudes
from petamap.data.formats.madmap1 import Madmap1Block, read_image_layout
from petamap.data.formats.madmap1_filters import NoiseFilter, read_noise_filters
from petamap.data.formats.madmap1_stream import Madmap1Stream
from petamap.data.formats.table_file import open_table
from petamap.data.formats.toast import ToastFile, ToastOptions
from petamap.data.formats.volume import open_volume
from petamap.data.run_summary import Summary
from petamap.data.time_constants import read_time_constants
from petamap.mapmaking.checkpoint_file import read_head
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.store import Store
from petamap.noise.model import InverseLags
from petamap.pointing.antenna import read_antenna_log
from petamap.pointing.focalplane import read_focalplane_toml, read_focalplane_xml, read_rimo
from petamap.simulation.noise import read_psd
from petamap.simulation.pysm import read_bandpass
from petamap.sky.covariance_file import read_pixel_covariance
from petamap.sky.map_file import read_map
from petamap.sky.numbered import NumberedPixels
from petamap.sky.observation_matrix_file import read_observation_matrix
from petamap.sky.spectrum_file import read_spectrum_file
from petamap.spectra.bandpower_files import read_bandpowers


def read_stream(path: Path) -> None:
    """Read all samples of a stream of MADmap as the pointing of one detector."""
    stream = Madmap1Stream(path)
    pixels, n = NumberedPixels(stream.n_pix), stream.stop - stream.first
    noise = NoiseFilter(path.name, stream.first, stream.stop, InverseLags(np.ones(1)))
    block = Madmap1Block(stream, "x", [noise], "auto", pixels)
    assert 0 <= block.efficiency(0) <= 1 and block.intensity(0) in (0, 1)
    out = np.empty(n, np.int32), np.empty(n, np.uint32), np.empty(n, np.float32)
    block.expand(pixels, 0, 0, n, *out)
    assert ((out[0] >= 0) & (out[0] < stream.n_pix)).all() and np.isfinite(out[2]).all()


READERS: dict[str, Callable[[Path], Any]] = {
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
    "stream": read_stream,
    "stream.gz": read_stream,
    "stream-iqu": read_stream,
    "stream-iqu.gz": read_stream,
    "layout.fits": read_image_layout,
    "filters.tar.gz": read_noise_filters,
    "log.gz": read_antenna_log,
    "plane.toml": read_focalplane_toml,
    "plane.xml": read_focalplane_xml,
    "rimo.fits": read_rimo,
    "taus.txt": read_time_constants,
    "psd.txt": read_psd,
    "band.txt": lambda path: read_bandpass(str(path)),
    "machine.toml": lambda path: load_machine(str(path)),
    "job.toml": load_mapping_job,
    "graph.csv": read_graph,
    "graph.mtx": read_graph,
    "graph.goal": read_graph,
    "graph.tit": read_graph,
    "job.ipm.xml": read_ipm,
    "job.mpiP": read_mpip,
    "algo.xml": read_msccl,
    "plan.json": read_mscclpp,
    "coordinates.txt": read_coordinates,
    "hwloc.xml": read_hwloc,
    "graph.npz": load_recording,
    "maps.npz": lambda path: ObjectMaps.load(path, 64),
    "topology.conf": read_topology_conf,
    "apinfo": lambda path: pals_allocation({"PALS_APINFO": str(path)}),
    "nodefile": lambda path: pbs_allocation({"PBS_NODEFILE": str(path)}),
    "timings.csv": lambda path: fit_csv(str(path)),
}


_SAMPLES = Path(__file__).parents[1] / "petacomm" / "topology" / "samples"
_LOG_ROW = "20171111110002.{}" + " 10.5" * 17 + " SCAN"


def _archive() -> bytes:
    """Return an archive of two filters of MADmap."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for number in range(2):
            content = struct.pack("<3q3d", 10 * number, 10 * number + 9, 2, 1.0, 0.5, 0.25)
            entry = tarfile.TarInfo(f"noise.{number}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def _polarized_stream() -> bytes:
    """Return a stream of I, Q and U of MADmap, in blocks of 16 unknowns."""
    rows = ((1.0, i, np.cos(i), i + 16, np.sin(i), i + 32) for i in range(5))
    return struct.pack("<4q", 0, 4, 3, 48) + b"".join(struct.pack("<dfififi", 0.5, *row) for row in rows)


def made_recording() -> Recording:
    """Return a recording of three messages and a collective of four ranks."""
    rows = [(0, 0, 0, rank, rank + 1, 7, 1 + rank, 100) for rank in range(3)]
    groups = [RankGroup("MPI_COMM_WORLD", np.arange(4, dtype=np.int32))]
    collectives = np.array([(0, 7, 0, 0, 8, 64, 5)], COLLECTIVES)
    return Recording(4, "an MPI", groups, np.array(rows, MESSAGES), collectives)


def made_object_maps() -> ObjectMaps:
    """Return maps of few objects of OpenAtom."""
    return ObjectMaps(*(np.arange(n, n + 6).reshape(2, 3) for n in range(len(fields(ObjectMaps)))))


def _saved(made: Recording | ObjectMaps) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "a.npz")
        return (Path(folder) / "a.npz").read_bytes()


def _fits(unit: Any, checksums: bool) -> bytes:
    from astropy.io import fits

    made, units = io.BytesIO(), [fits.PrimaryHDU(), unit]
    for one in units if checksums else ():
        one.add_checksum()
    fits.HDUList(units).writeto(made)
    return made.getvalue()


def made_instrument_model(checksums: bool) -> bytes:
    """Return Planck's reduced instrument model, of three detectors."""
    from astropy.io import fits

    columns = [fits.Column("DETECTOR", "8A", array=np.array(["a", "b", "c"]))]
    for name in ("PHI_UV", "THETA_UV", "PSI_UV", "PSI_POL", "FWHM", "NET", "F_KNEE", "F_MIN", "F_SAMP"):
        columns.append(fits.Column(name, "D", array=np.array([0.5, 1.0, 1.5])))
    columns += [fits.Column(name, "D", array=np.zeros(3)) for name in ("EPSILON", "ALPHA")]
    return _fits(fits.BinTableHDU.from_columns(columns, name="CHANNEL_PARAMETERS"), checksums)


def made_image(checksums: bool) -> bytes:
    """Return an image with a place on the sky, of which some pixels are finite."""
    from astropy.io import fits

    values = np.where(np.arange(30).reshape(5, 6) % 4, 1.0, np.nan)
    cards = {"CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN", "CRPIX1": 3.0, "CRPIX2": 2.0, "CRVAL1": 10.0}
    return _fits(fits.ImageHDU(values, fits.Header(cards | {"CDELT1": -0.1, "CDELT2": 0.1})), checksums)


def seeds() -> dict[str, bytes]:
    """Return a file for each reader of a text or of a binary format of few bytes, by name."""
    stream = struct.pack("<4q", 0, 4, 1, 48) + b"".join(struct.pack("<dfi", i, 1.0, i) for i in range(5))
    texts = {
        "run.toml": '[run]\nname = "x"\n[map]\nn_side = 4\n[[source]]\nkind = "ground"\nduration = "1 h"\n',
        "run.xml": "<petamap><run><name>x</name></run><map><n_side>4</n_side></map>"
        '<source kind="ground"><duration>1 h</duration></source></petamap>',
        "cl.dat": "# l TT EE BB TE\n" + "".join(f"{i} {i}.5 1e-3 0 0.1\n" for i in range(2, 9)),
        "day.csv": "time,lon,lat,psi,I\n" + "".join(f"{i},{i}.5,1e1,0,-{i}\n" for i in range(5)),
        "log.gz": "".join(_LOG_ROW.format(i) + "\n" for i in range(5)),
        "plane.xml": "<focalplane><defaults><alpha>-1</alpha></defaults><detector><name>a</name>"
        "<theta>1 deg</theta></detector></focalplane>",
        "plane.toml": '[[detector]]\nname = "a"\ntheta = "1 deg"\npsi = "45 deg"\n',
        "taus.txt": "# detector seconds\none 0.01\ntwo 2e-3\n",
        "psd.txt": "# Hz K^2/Hz\n0.1 3e-9\n1 2e-9\n10 1e-9\n",
        "band.txt": "100e9 0.5\n110e9 1\n120e9 0.5\n",
        "machine.toml": (_machines() / "hopper.toml").read_text(),
        "job.toml": 'ranks = 8\nranks_per_node = 2\n[graph]\ngrid = "2x4"\nbytes = 10\n'
        '[machine]\nname = "fugaku"\nshape = "2x2x1"\n',
        "graph.csv": "0,1,100\n1,2,50.5\n",
        "graph.mtx": "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 5\n2 3 1e2\n",
        "graph.tit": "0 init\n0 isend 1 5 8\n0 waitall\n1 recv 0 5 1 0\n1 finalize\n",
        "graph.goal": "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\nl2: calc 5 cpu 0\nl2 requires l1\n}\n"
        "rank 1 {\nl1: recv 8b from 0 tag 0\n}\n",
        "job.ipm.xml": "<ipm_job_profile>\n"
        + "".join(
            f'<task ipm_version="2.0.6" mpi_rank="{rank}" mpi_size="2" >\n<hash nlog="2" nkey="2" >\n'
            f'<hent key="" call="MPI_Isend" bytes="8" orank="{1 - rank}" region="0" count="3" >1 1 1</hent>\n'
            '<hent key="09000100000000000000018000000001" call="MPI_Bcast" bytes="384" orank="1" region="0" '
            'count="1" >1 1 1</hent>\n</hash>\n</task>\n'
            for rank in range(2)
        )
        + "</ipm_job_profile>\n",
        "job.mpiP": "@ mpiP\n@ Version : 3.5.0\n@ MPI Task Assignment : 0 n0\n@ MPI Task Assignment : 1 n1\n"
        "@--- Aggregate Point-To-Point Sent (top twenty) ---\n-----\nCall\nIsend 99 0 - 7 32 - 63\n-----\n"
        "@--- Callsite Message Sent statistics (all, sent bytes) ---\n-----\nName Site Rank\n"
        "Isend 1 0 2 56 44 32 88\nIsend 1 1 1 8 8 8 8\nIsend 1 * 3 56 32 8 96\n-----\n@--- End of Report\n",
        "algo.xml": '<algo name="a" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="1">\n'
        + "".join(
            f'<gpu id="{i}" i_chunks="1" o_chunks="0" s_chunks="0"><tb id="0" send="{1 - i}" recv="{1 - i}" '
            'chan="0"><step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" '
            'deps="-1" hasdep="0"/><step s="1" type="rrc" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" '
            'cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu>\n'
            for i in range(2)
        )
        + "</algo>\n",
        "plan.json": mscclpp_plan(ring_allreduce(2, 2)).text(),
        "coordinates.txt": "torus 2x2x1\n0 0 0 0 n1\n1 0 0 0 n2\n",
        "hwloc.xml": (_SAMPLES / "hwloc-two-packages.xml").read_text(),
        "topology.conf": (_SAMPLES / "topology-tree.conf").read_text(),
        "nodefile": (_SAMPLES / "pbs-nodefile-polaris").read_text(),
        "timings.csv": "collective,ranks,bytes,seconds\nallreduce,2,8,1e-6\nallreduce,4,1000,5e-6\n",
    }
    packed = {"stream": stream, "stream.gz": gzip.compress(stream), "filters.tar.gz": _archive()}
    polarized = _polarized_stream()
    packed |= {"stream-iqu": polarized, "stream-iqu.gz": gzip.compress(polarized)}
    packed |= {"graph.npz": _saved(made_recording()), "maps.npz": _saved(made_object_maps())}
    packed |= {"rimo.fits": made_instrument_model(False), "layout.fits": made_image(False)}
    packed["apinfo"] = apinfo(["x3210c0s25b0n0", "x3210c0s37b1n0"], [(0, 0), (0, 1), (1, 0)])
    return packed | {name: text.encode() for name, text in texts.items()}


def _machines() -> Path:
    import petacomm.topology

    return Path(petacomm.topology.__file__).with_name("machines")
