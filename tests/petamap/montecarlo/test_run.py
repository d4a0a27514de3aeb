"""Tests of small Monte Carlos: independence of realizations, and agreement with `petamap run`."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
from montecarlo_runs import TINY, arrays, configured, made, same

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.options import option
from petacomm.base.progress import SilentProgress
from petamap.data.run_summary import Summary
from petamap.data.source import _KINDS
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.run import run
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.run import run_montecarlo
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.transforms import weighted_harmonics

ROWS = ("input", "iterations", "residual", "error_bound", "hash", "error")


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """Return four realizations with their maps."""
    out = tmp_path_factory.mktemp("apart")
    summary = made(out, "montecarlo.realizations=4", "montecarlo.maps=true")
    return out, summary, arrays(out)


def test_summary_and_file(apart):
    out, summary, found = apart
    assert Summary.read(out) == summary
    told = summary.montecarlo
    assert (told.file, told.done, told.failed, told.made) == ("tiny_mc.h5", 4, 0, 4)
    assert told.parts == ("sky", "noise", "both") and told.solved == ("sky", "noise")
    assert told.iterations.min == found["iterations"].min()
    assert found["numbers"].tolist() == [0, 1, 2, 3] and (found["status"] == 1).all()
    assert (found["residual"] <= 1e-6).all()
    read = read_results(out)
    assert (read.realizations.n, read.n_remaining, read.failed, read.frame) == (4, 0, (), "galactic")
    assert same(read.realizations.main, found["pseudo/both"]) and read.theory["TT"][2] > 0
    assert read.realizations.choices.fwhm == pytest.approx(np.radians(10))
    assert read.realizations.choices.width == 3


def test_maps_to_a_share_of_the_noise(tmp_path):
    wanted = ("montecarlo.realizations=2", "montecarlo.vectors=3", "solver.tolerance=2% of noise")
    summary = made(tmp_path / "a", *wanted)
    assert summary.montecarlo.done == 2 and summary.montecarlo.not_converged == 0
    assert (arrays(tmp_path / "a")["error_bound"] <= 0.02).all()
    few = made(tmp_path / "b", *wanted, "solver.max_iterations=1").montecarlo
    assert few.not_converged == (arrays(tmp_path / "b")["error_bound"] > 0.04).sum() > 0


def test_sky_and_noise_add_up(apart):
    _, _, found = apart
    sky, noise, both = (found[f"maps/{part}"] for part in ("sky", "noise", "both"))
    assert same(both, sky + noise) and np.nanstd(sky) > 1e-5 and np.nanstd(noise) > 1e-6
    for part, maps in (("sky", sky), ("both", both)):
        seen = weighted_harmonics(maps[1], Healpix(4), *found["weights"])
        spectra = pseudo_spectra(seen).values
        # monopole and dipole of I are removed in the file
        assert np.allclose(found[f"pseudo/{part}"][1, 1:3], spectra[1:3], rtol=1e-12, atol=1e-30)


def test_realizations_are_independent(apart, tmp_path):
    _, _, found = apart
    made(tmp_path, "montecarlo.first=2", "montecarlo.realizations=1", "montecarlo.maps=true")
    alone = arrays(tmp_path)
    assert alone["numbers"].tolist() == [2]
    for name in (*ROWS, "pseudo/both", "maps/noise"):
        assert same(alone[name][0], found[name][2]), name
    assert not same(found["maps/sky"][2], found["maps/sky"][3])


def test_realization_against_a_run(tmp_path):
    made(tmp_path / "mc", "montecarlo.first=7", "montecarlo.realizations=2", "montecarlo.parts=together")
    found = arrays(tmp_path / "mc")
    for row, number in enumerate((7, 8)):
        summary = run(configured(f"run.realization={number}"), out=tmp_path / str(number))
        product = next(one for one in summary.products if one.kind == "map")
        assert found["hash"][row, 0].decode() == product.sha256
        assert found["iterations"][row, 0] == summary.solver.iterations


def test_input_spectra(apart):
    _, _, found = apart
    theory = np.zeros_like(found["input"][0])
    theory[:, : found["theory"].shape[1]] = found["theory"][:, : theory.shape[1]]
    l = np.arange(2, 12)  # noqa: E741
    ratio = found["input"][:, 0, 2:] / theory[0, 2:]
    # 4 skies with 2 l + 1 modes each: the mean over all is 1 within 4 standard deviations
    assert abs(np.average(ratio, weights=np.tile(2 * l + 1, (4, 1))) - 1) < 4 * np.sqrt(
        2 / (4 * np.sum(2 * l + 1))
    )
    assert (found["input"][:, 2] == 0).all() or found["input"][:, 2].max() < found["input"][:, 1].max()


def test_binned_maps_and_single_parts(apart, tmp_path):
    _, _, found = apart
    made(tmp_path / "noise", "montecarlo.realizations=2", "montecarlo.parts=noise")
    noise = arrays(tmp_path / "noise")
    assert same(noise["hash"][:, 0], found["hash"][:2, 1]) and "input" not in noise
    assert "pseudo/sky" not in noise
    made(tmp_path / "binned", "montecarlo.realizations=2", "solver.binned_only=true")
    binned = arrays(tmp_path / "binned")
    assert (binned["iterations"] == 0).all()
    assert (binned["pseudo/noise"][:, 1, 2:] > 0).all() and not same(binned["hash"][0], found["hash"][0])


def test_deflation_vectors(apart, tmp_path):
    _, _, found = apart
    summary = made(tmp_path, "montecarlo.realizations=2", "montecarlo.maps=true", "montecarlo.vectors=10")
    fewer = arrays(tmp_path)
    assert summary.montecarlo.vectors == 10
    # the vectors are from other realizations
    assert summary.montecarlo.alone == pytest.approx(found["iterations"].mean(), rel=0.1)
    assert summary.montecarlo.vectors_pay >= 1
    assert fewer["iterations"].sum() < 0.9 * found["iterations"][:2].sum()
    assert np.allclose(fewer["maps/sky"], found["maps/sky"][:2], atol=1e-4 * np.nanstd(found["maps/sky"]),
                       equal_nan=True)  # fmt: skip


def test_fixed_signals_are_mapped_once(apart, tmp_path):
    _, _, found = apart
    values = np.outer([1.0, 0.1, 0.05], 1e-4 * np.cos(np.arange(192)))
    write_map(
        tmp_path / "sky.fits", values, Healpix(4), names=["I", "Q", "U"], unit="K_CMB", run_id="sky",
        frame="galactic",
    )  # fmt: skip
    source = '[[source]]\nkind = "sky-map"\nmap = "%s"\npolarization = "COSMO"\n' % (tmp_path / "sky.fits")
    text = TINY + source
    for fixed in ("add", "apart", "leave"):
        summary = made(
            tmp_path / fixed, "montecarlo.realizations=2", "montecarlo.maps=true",
            f"montecarlo.fixed={fixed}", text=text,
        )  # fmt: skip
        calls = {phase.name: phase.calls for phase in summary.phases}
        assert calls.get("fixed signals", 0) == (fixed != "leave") and calls["data"] == 1
    add, apart_, leave = (arrays(tmp_path / fixed) for fixed in ("add", "apart", "leave"))
    assert same(add["maps/both"], found["maps/both"][:2] + add["fixed/map"])
    less = read_results(tmp_path / "add").realizations.pseudo["both"]
    assert same(less, add["pseudo/both"] - add["fixed/pseudo"])
    assert same(apart_["fixed/map"], add["fixed/map"]) and "fixed/map" not in leave
    for one in (apart_, leave):
        assert same(one["pseudo/both"], found["pseudo/both"][:2])
    seen = np.isfinite(add["fixed/map"][0])
    assert np.allclose(add["fixed/map"][1, seen], values[1, seen], atol=1e-8)
    made(tmp_path / "add", "montecarlo.realizations=4", "montecarlo.maps=true", "montecarlo.fixed=add",
         text=text)  # fmt: skip
    assert same(arrays(tmp_path / "add")["maps/both"][:2], add["maps/both"])


def test_noise_of_the_model(apart, tmp_path):
    _, _, found = apart
    made(tmp_path / "model", "montecarlo.realizations=2", "montecarlo.noise=model", "montecarlo.parts=noise")
    assert same(arrays(tmp_path / "model")["hash"][:, 0], found["hash"][:2, 1])
    nearly_white = ("montecarlo.realizations=4", "montecarlo.parts=noise", "source.2.fknee=1 mHz")
    made(tmp_path / "drawn", *nearly_white)
    made(tmp_path / "estimate", *nearly_white, "montecarlo.noise=model", "noise.kernel=estimate")
    drawn, estimated = (
        arrays(tmp_path / name)["pseudo/noise"][:, 1:3, 2:].mean() for name in ("drawn", "estimate")
    )
    # 4 maps of 2 times 140 modes each: the error of a mean is 4 %
    assert abs(estimated / drawn - 1) < 0.25


@dataclass(frozen=True)
class _Unlucky:
    """Signal that is not finite in one realization."""

    realization: int

    def add_signal(self, detector, start, stop, out):
        if self.realization == 2:
            out += np.nan


@dataclass(frozen=True)
class _UnluckyOptions:
    """No options."""

    never: bool = option(False, help="unused")


class _UnluckySource:
    options: ClassVar[type] = _UnluckyOptions
    part: ClassVar[str] = "noise"

    def __init__(self, options, context):
        self._realization = context.realization

    def extend(self, observations):
        from dataclasses import replace

        return [replace(one, signals=(*one.signals, _Unlucky(self._realization))) for one in observations]


def test_failed_realization_does_not_stop_the_others(apart, tmp_path):
    _, _, found = apart
    module = type("module", (), {"Source": _UnluckySource})
    kinds = mock.patch.dict(_KINDS, {"unlucky": "unlucky:Source"})
    with kinds, mock.patch.dict("sys.modules", {"unlucky": module}):
        summary = made(tmp_path, "montecarlo.realizations=4", text=TINY + '[[source]]\nkind = "unlucky"\n')
    failed = arrays(tmp_path)
    assert failed["status"].tolist() == [1, 1, 2, 1]
    assert b"sample 0" in failed["error"][2] and b"finite" in failed["error"][2]
    assert same(failed["hash"][[0, 1, 3]], found["hash"][[0, 1, 3]])
    assert (summary.montecarlo.done, summary.montecarlo.failed) == (3, 1)
    assert any("realization 2 failed: " in text for text in summary.warnings)


def test_errors_before_any_work(tmp_path):
    write_map(tmp_path / "mask.fits", np.ones((1, 768)), Healpix(8), names=["MASK"], unit="", run_id="",
              frame="galactic")  # fmt: skip
    (tmp_path / "bad.txt").write_text("# L TT\n2 1\n3 -1\n")
    no_sky = TINY.replace('[[source]]\nkind = "sky-spectra"\nn_side = 8\nfwhm = "10 deg"\n', "")
    cases = (
        (["spectra.l_max=12"], TINY, ConfigError, "l_max 12 is beyond the reach of n_side 4"),
        (["spectra.width=20"], TINY, ConfigError, "no bin of 20 multipoles"),
        (["map.pixelization=car", "map.resolution=1 deg"], TINY, ConfigError, "HEALPix"),
        ([f"spectra.mask={tmp_path / 'mask.fits'}"], TINY, DataError, "n_side 8, the map n_side 4"),
        ([f"source.1.spectra={tmp_path / 'bad.txt'}"], TINY, DataError, "negative"),
        (["map.stokes=I", "spectra.purify=B"], TINY, ConfigError, "no B that could be pure"),
        (["montecarlo.fixed=add", "montecarlo.parts=sky"], TINY, ConfigError, "sky alone"),
        ([], no_sky, ConfigError, "no source draws a sky"),
    )
    for settings, text, kind, words in cases:
        with pytest.raises(kind, match=words):
            made(tmp_path / "out", *settings, text=text)
        assert not (tmp_path / "out" / "tiny_mc.h5").exists()


def test_progress(tmp_path):
    said = []

    class Listener(SilentProgress):
        def begin(self, phase, total=None, unit=""):
            said.append([phase, total, 0.0, []])

        def advance(self, amount, note=""):
            said[-1][2] += amount
            said[-1][3].append((said[-1][2], note))

    for n, batch in ((3, 3), (5, 1)):
        said.clear()
        settings = (f"montecarlo.realizations={n}", f"montecarlo.batch={batch}", "source.0.duration=3 h")
        made(tmp_path, *settings, "resources.threads=2", progress=Listener())
        phase, total, done, steps = said[-1]
        # finished realizations are not counted
        assert (phase, total, round(done, 9)) == ("realizations", 3.0 if n == 3 else 2.0, total)
        within = [amount for amount, note in steps if note.startswith("iteration")]
        assert any(0 < amount < batch and amount % 1 for amount in within)
        assert all(0 <= amount <= total + 1e-9 for amount in within)
        spectra = [amount for amount, note in steps if note.startswith("spectra of")]
        assert len(spectra) >= 2 * total and all(a <= b < total for a, b in pairwise(spectra))


def test_batches_fit_into_memory(tmp_path):
    wanted = ("montecarlo.realizations=4", "source.0.duration=3 h")
    assert made(tmp_path / "free", *wanted).montecarlo.batch == 4
    config = configured(*wanted)
    with mock.patch("petamap.montecarlo.rank_groups._bytes_at_once", lambda *_: 1e15 * (_[2] - 2)):
        summary = run_montecarlo(config, out=tmp_path / "tight")
    assert summary.montecarlo.batch == 2 and summary.montecarlo.why.endswith("2 at once, for memory")
    assert same(arrays(tmp_path / "tight")["hash"], arrays(tmp_path / "free")["hash"])


def test_training_fits_into_memory(tmp_path):
    wanted = ("montecarlo.realizations=2", "montecarlo.vectors=4", "montecarlo.vectors_from=3")
    asked = []

    def train(gradients, rhs, tolerance, most, n_vectors, at_once):
        asked.append((len(rhs), at_once))
        return real(gradients, rhs, tolerance, most, n_vectors, at_once)

    real = Deflation.train
    with mock.patch.object(Deflation, "train", train):
        made(tmp_path / "free", *wanted, "source.0.duration=3 h")
        with mock.patch("petamap.montecarlo.rank_groups._bytes_at_once", lambda *_: 1e15 * (_[3] - 2)):
            made(tmp_path / "tight", *wanted, "source.0.duration=3 h")
    # sky and noise of each realization
    assert asked == [(6, 6), (6, 4)]
    assert same(arrays(tmp_path / "tight")["hash"], arrays(tmp_path / "free")["hash"])
