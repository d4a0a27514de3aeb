"""Coadded maps: means of runs' maps against a run of all data, and one run over the data of several."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from small_runs import config, noisy_scans, run_on

from petacomm.base.errors import ConfigError, DataError
from petamap.cli.main import main
from petamap.data.config import load_config, open_sources, parse_config
from petamap.data.formats.volume_write import write_volume
from petamap.data.run_summary import Summary
from petamap.mapmaking.coadd import CoaddedMap, coadd
from petamap.mapmaking.coadd_files import write_coadd
from petamap.mapmaking.joint_run import joint_job
from petamap.mapmaking.run import run
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.sky.sky_map import SkyMap

WHITE = {"noise": {"kernel": "white"}, "solver": {"tolerance": 1e-13}, "map": {"n_side": 2}}


def halves(tmp_path, **changes):
    """Return the folders of runs of the first observation, of the second, and of both."""
    observations = noisy_scans()
    chosen = {"a": observations[:1], "b": observations[1:], "all": observations}
    for name, some in chosen.items():
        run_on(some, tmp_path / name, run={"name": name}, **changes)
    return [tmp_path / name for name in chosen]


def test_the_coadd_of_two_halves_is_the_run_of_both_where_noise_is_white(tmp_path):
    a, b, both = halves(tmp_path, **WHITE)
    coadded, runs = coadd([a, b])
    made = write_coadd(coadded, runs, tmp_path / "sum")
    whole = [read_map(both / f"all_{kind}.fits").values for kind in ("map", "covariance", "hits")]
    found = [
        read_map(tmp_path / "sum" / f"coadd_{kind}.fits").values for kind in ("map", "covariance", "hits")
    ]
    seen = np.isfinite(found[0]).all(axis=0)
    assert seen.sum() > 20
    for one, other in zip(found, whole, strict=True):
        scale = np.nanmax(np.abs(other))
        np.testing.assert_allclose(one[:, seen], other[:, seen], rtol=1e-10, atol=1e-10 * scale)
    assert made.totals.samples == sum(one.totals.samples for one in runs)
    assert Summary.read(tmp_path / "sum").products[0].kind == "map"


def test_chi_squared_is_that_of_dense_matrices(tmp_path):
    a, b, _ = halves(tmp_path, **WHITE)
    coadded, _ = coadd([a, b])
    expected, n = 0.0, 0
    for pixel in range(coadded.sky.pixelization.n_pix):
        rows = []
        for folder in (a, b):
            name = folder.name
            m = read_map(folder / f"{name}_map.fits").values[:, pixel]
            ii, iq, iu, qq, qu, uu = read_map(folder / f"{name}_covariance.fits").values[:, pixel]
            c = np.array([[ii, iq, iu], [iq, qq, qu], [iu, qu, uu]])
            if np.isfinite(m).all():
                rows.append((m, np.linalg.inv(c)))
        if len(rows) == 2:
            total = sum(w for _, w in rows)
            mean = np.linalg.solve(total, sum(w @ m for m, w in rows))
            expected += sum((m - mean) @ w @ (m - mean) for m, w in rows)
            n += 3
    np.testing.assert_allclose(coadded.chi_squared, expected, rtol=1e-8)
    assert coadded.degrees_of_freedom == n > 0


def drawn(rng, sky, truth, runs, out):
    """Write a map of the truth, (n_pix, 3), with noise of drawn covariances, as that of a run."""
    n = len(truth)
    roots = rng.standard_normal((n, 3, 3)) + 3 * np.eye(3)
    values = truth + np.einsum("pij,pj->pi", roots, rng.standard_normal((n, 3)))
    made = CoaddedMap(replace(sky, values=values.T), roots @ roots.transpose(0, 2, 1), None, 0.0, 0)
    write_coadd(made, runs, out)


def test_the_mean_has_no_bias_and_the_noise_that_it_says(tmp_path):
    rng = np.random.default_rng(2)
    sky = SkyMap(np.zeros((3, 768)), Healpix(8), ("I", "Q", "U"), ("K_CMB",) * 3, "galactic", "COSMO")
    truth = rng.standard_normal((768, 3)) * 100
    run_on(noisy_scans(n_samp=600), tmp_path / "any", **WHITE)
    any_run = Summary.read(tmp_path / "any")
    folders = [tmp_path / str(number) for number in range(3)]
    for number, folder in enumerate(folders):
        drawn(rng, sky, truth, [any_run] * (number + 1), folder)
    coadded, _ = coadd(folders)
    error = coadded.sky.values.T - truth
    deviation = np.einsum("pi,pij,pj->", error, np.linalg.inv(coadded.covariance), error)
    assert abs(deviation - 3 * 768) < 4 * np.sqrt(2 * 3 * 768)
    whitened = np.linalg.solve(np.linalg.cholesky(coadded.covariance), error[..., None])
    assert abs(whitened.mean()) < 4 / np.sqrt(3 * 768)
    assert coadded.degrees_of_freedom == 2 * 3 * 768
    assert 1e-4 < coadded.probability < 1 - 1e-4


def test_a_coadd_of_coadds_is_the_coadd_of_all(tmp_path):
    a, b, both = halves(tmp_path, **WHITE)
    for some, name in (([a, b], "ab"), ([b, both], "bc")):
        write_coadd(*coadd(some), tmp_path / name, name=name)
    one, _ = coadd([tmp_path / "ab", both])
    other, _ = coadd([a, tmp_path / "bc"])
    np.testing.assert_allclose(one.sky.values, other.sky.values, rtol=1e-9, atol=1e-9)


def test_errors(tmp_path):
    a, b, _ = halves(tmp_path, **WHITE)
    with pytest.raises(ConfigError, match="one run is no sum"):
        coadd([a])
    with pytest.raises(ConfigError, match="is the same run as"):
        coadd([a, b, a])
    observations = noisy_scans()[1:]
    others = {
        "n_side=1.* but .*n_side=2": {"map": {"n_side": 1}},
        "Stokes parameters: I, but IQU in": {"map": {"n_side": 2, "stokes": "I"}},
        "no covariance.*products.covariance": {"products": {"covariance": False}},
        "no map.*products.maps": {"products": {"maps": False}},
        "no map.*solver.binned_only = false": {"solver": {"binned_only": True}},
    }
    for number, (text, changes) in enumerate(others.items()):
        out = tmp_path / f"other{number}"
        run_on(observations, out, run={"name": "o"}, **WHITE | changes)
        with pytest.raises(DataError, match=text):
            coadd([a, out])


def test_nested_maps_are_brought_to_the_order_of_the_first(tmp_path):
    a, b, _ = halves(tmp_path, **WHITE)
    run_on(
        noisy_scans()[1:],
        tmp_path / "nest",
        run={"name": "n"},
        **WHITE | {"map": {"n_side": 2, "ordering": "nest"}},
    )
    one, other = coadd([a, b])[0], coadd([a, tmp_path / "nest"])[0]
    np.testing.assert_allclose(one.sky.values, other.sky.values, rtol=1e-9, atol=1e-9)


NIGHT = """
[run]
name = "{name}"
[map]
pixelization = "healpix"
n_side = 4
stokes = "I"
[solver]
tolerance = 1e-10
[[source]]
kind = "satellite"
name = "{name}"
n_det = 2
duration = "{hours} h"
sample_rate = "1 Hz"
start = "{start}"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "10 mHz"
fmin = "1 mHz"
"""


def nights(tmp_path):
    """Return the folders of runs of two nights with correlated noise."""
    for name, hours, start in (("one", 6, "2030-01-01"), ("two", 8, "2030-02-01")):
        run(parse_config(NIGHT.format(name=name, hours=hours, start=start)), out=tmp_path / name)
    return [tmp_path / "one", tmp_path / "two"]


def test_a_joint_run_is_the_run_over_all_observations(tmp_path):
    folders = nights(tmp_path)
    chosen, observations = joint_job(folders)
    assert [one.name for one in observations] == ["one", "two"]
    summary = run(chosen, out=tmp_path / "joint", observations=observations)
    values = read_map(tmp_path / "joint" / "coadd_map.fits").values
    both = replace(chosen, run=replace(chosen.run, name="both"))
    run(both, out=tmp_path / "both", observations=observations)
    np.testing.assert_array_equal(values, read_map(tmp_path / "both" / "both_map.fits").values)
    assert summary.totals.samples == sum(Summary.read(folder).totals.samples for folder in folders)
    means, _ = coadd(folders)
    seen = np.isfinite(values) & np.isfinite(means.sky.values)
    noise = np.sqrt(means.covariance[seen[0], 0, 0])
    assert 0 < np.std((values - means.sky.values)[seen] / noise) < 3


def test_what_cannot_be_solved_together_is_an_error(tmp_path):
    one, two = nights(tmp_path)
    with pytest.raises(ConfigError, match="observation 'one' is in"):
        joint_job([one, two, one])
    run(
        parse_config(NIGHT.format(name="three", hours=6, start="2030-03-01").replace("= 4", "= 2")),
        out=tmp_path / "3",
    )
    with pytest.raises(ConfigError, match=r"\[map\] is not that of"):
        joint_job([one, tmp_path / "3"])
    assert joint_job([one, tmp_path / "3"], settings=["map.n_side=2"])[0].map.n_side == 2
    run(config(run={"name": "memory"}), out=tmp_path / "memory", observations=noisy_scans(n_samp=600))
    with pytest.raises(ConfigError, match="no sources that can be opened anew"):
        joint_job([tmp_path / "memory", one])


def test_the_same_configuration_in_two_folders_is_of_two_runs(tmp_path):
    observations = noisy_scans()
    for name, one in zip("ab", observations, strict=True):
        chosen = replace(config(**WHITE), folder=tmp_path / name)
        run(chosen, out=tmp_path / name, observations=[one])
    summaries = [Summary.read(tmp_path / name) for name in "ab"]
    assert summaries[0].run_id == summaries[1].run_id and summaries[0].folder == str(tmp_path / "a")
    coadded, _ = coadd([tmp_path / "a", tmp_path / "b"])
    assert coadded.hits.sum() == sum(one.totals.samples_used for one in summaries)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(ConfigError, match="is the same run as"):
        coadd([tmp_path / "a", tmp_path / "copy"])


def test_relative_paths_of_a_joint_run_are_those_of_its_configurations(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        text = NIGHT.format(name=name, hours=6, start="2030-01-01" if name == "one" else "2030-01-02")
        write_volume(tmp_path / name / "data.h5", open_sources(parse_config(text)))
        day = tmp_path / name / "day.toml"
        day.write_text('[map]\nn_side = 4\nstokes = "I"\n[[source]]\nkind = "volume"\npath = "data.h5"\n')
        run(load_config(day), out=tmp_path / name / "maps")
    monkeypatch.chdir(tmp_path / "one")
    _, observations = joint_job([tmp_path / "one" / "maps", tmp_path / "two" / "maps"])
    assert [one.name for one in observations] == ["one", "two"]


def test_what_the_command_says(tmp_path, capsys):
    folders = [str(folder) for folder in nights(tmp_path)]
    for words, message in (
        (["--name", "../x"], "--name: must be a name"),
        (["--joint", "run.name=x"], "'run.name=x' is the name of one of the runs .--name NAME"),
    ):
        assert main(["coadd", *folders, "-o", str(tmp_path / "out"), *words]) == 2
        assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()
    assert main(["coadd", *folders, "-o", str(tmp_path / "both")]) == 0
    assert "the noise of one, two is correlated" in capsys.readouterr().err
    three = tmp_path / "three"
    run(
        parse_config(
            NIGHT.format(name="three", hours=6, start="2030-03-01"), overrides=["noise.kernel=white"]
        ),
        out=three,
    )
    assert main(["coadd", str(tmp_path / "both"), str(three), "-o", str(tmp_path / "all")]) == 0
    assert "the noise of both is correlated" in capsys.readouterr().err.replace("of coadd is", "of both is")
