"""Configurations drawn at random: the same bits on other ranks and threads, or the same typed error.

    python tests/support/random_runs.py [CASES [FIRST [COMMAND]]]

Each case is drawn by its number: a scan, a sky, noise, flags, templates, splits and products. Its command
(run, mc or simulate) runs in one process on one thread, and on several ranks with another distribution,
reduction and way to keep pointing, and other batches and groups of realizations. What `simulate` writes is
mapped, too, to the bits of the map of the configuration itself. What differs is left in a folder, with the
configuration.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from commands import run_command

BIN = Path(sys.executable).parent
SECONDS = 600
GOOD, CONFIG, DATA, NOT_CONVERGED = 0, 2, 3, 4  # exit codes of a run

_SCANS = {
    "satellite": [
        {"precession_period": "96 min", "precession_angle": "45 deg", "opening": "50 deg"},
        {"precession_period": "4 h", "precession_angle": "30 deg", "spin_period": "10 min"},
        {"repointing_period": "20 min", "repointing_time": "2 min", "year": "2 day"},
    ],
    "ground": [
        {},
        {"azimuth_min": "170 deg", "azimuth_max": "190 deg", "speed": "0.5 deg/s"},
        {"turnarounds": "keep", "frame": "galactic"},
    ],
    "raster": [
        {"width": "6 deg", "height": "5 deg", "row_spacing": "20 arcmin", "speed": "1 deg/s"},
        {"pattern": "daisy", "width": "8 deg", "speed": "1 deg/s", "latitude": "-40 deg"},
        {"width": "10 deg", "height": "4 deg", "row_spacing": "15 arcmin", "latitude": "89 deg"},
    ],
}  # fmt: skip
_TEMPLATES = {
    "baselines": [{"length": "30 s"}, {"length": "1 min", "rms": "1 mK"}],
    "offsets": [{}],
    "polynomials": [{"order": 1}, {"order": 3, "rms": "0.1 mK"}],
    "azimuth-synchronous": [
        {"order": 2, "simulate": "1 mK"},
        {"bins": 6, "per": "run"},
        {"order": 1, "all_detectors": True, "per": "observation"},
        {"order": 2, "drift": "5 min"},
    ],
    "plate-synchronous": [{"last": 4}, {"first": 2, "last": 3, "drift": "4 min", "simulate": "0.5 mK"}],
    "gain-drift": [{"rms": 0.01, "simulate": 0.01}, {"rms": 0.02, "length": "5 min"}],
    "leakage": [{"rms": 0.01, "simulate": 0.01}],
}
_OF_TEMPLATES = {"baselines": (), "polynomials": ("ground", "raster"), "azimuth-synchronous": ("ground",)}
_FLAGS = [
    {"gap_every": "2 min", "gap_length": "3 s"},
    {"gap_every": "1 min", "gap_length": "1 s", "gaps_shared": True},
    {"begin": "3 min", "end": "5 min"},
    {"lat_min": "-10 deg", "lat_max": "5 deg"},
]
_NOISES = [
    {"net": "100 uK s^0.5", "fknee": "0.1 Hz", "fmin": "1 mHz"},
    {"net": "100 uK s^0.5", "fknee": "1 Hz", "fmin": "5 mHz", "alpha": -2.0},
    {"net": "100 uK s^0.5"},
]
_SPLITS = [
    {"name": "halves", "by": "time"},
    {"name": "each", "by": "detector"},
    {"name": "ways", "by": "direction"},
    {"name": "thirds", "by": "time", "n_parts": 3, "whole_intervals": True},
    {"name": "turns", "by": "subscans"},
]


def drawn(case: int) -> dict[str, object]:
    """Return the configuration of a case: sections, and lists of them, by name."""
    choose = random.Random(case)
    scan = choose.choice(list(_SCANS))
    rate, n_det = choose.choice([5, 10, 20]), choose.choice([1, 2, 4, 7])
    sections = {
        "run": {"name": "case", "seed": choose.randrange(1000)},
        "map": _map(choose, scan),
        "noise": _noise(choose),
        "solver": _solver(choose),
        "products": _products(choose),
        "source": _sources(choose, scan, rate, n_det),
    }
    if sections["source"][0].get("hwp_frequency") and choose.random() < 0.3:
        sections["products"]["demodulated"] = True
    if choose.random() < 0.25:
        sections["split"] = [choose.choice(_SPLITS)]
    if choose.random() < 0.15:
        sections["glitches"] = {"find": choose.choice(["glitches", "glitches-and-steps"])}
    return sections


def drawn_montecarlo(case: int) -> dict[str, object]:
    """Return the configuration of realizations of a case."""
    sections, choose = drawn(case), random.Random(f"mc {case}")
    for name in ("products", "split", "glitches"):
        sections.pop(name, None)
    if sections["map"].pop("pixelization", None):  # spectra are of spheres
        sections["map"] = {"n_side": 32, "stokes": sections["map"]["stokes"]}
    if all(one["kind"] != "sky-spectra" for one in sections["source"]):
        sections["source"].insert(1, {"kind": "sky-spectra", "n_side": 32, "fwhm": "3 deg"})
    sections["montecarlo"] = {
        "realizations": choose.choice([2, 3, 5]),
        "first": choose.choice([0, 0, 1000]),
        "parts": choose.choice(["apart", "apart", "together", "sky", "noise"]),
        "estimator": choose.choice(["maximum-likelihood"] * 4 + ["filter-and-bin"]),
        "noise": choose.choice(["auto", "auto", "sources", "model"]),
        "fixed": choose.choice(["leave", "leave", "apart", "add"]),
        "maps": choose.random() < 0.5,
        "vectors": choose.choice([0, 0, 0, 5]),
    }
    if choose.random() < 0.4:
        sections["spectra"] = {
            "purify": choose.choice(["none", "B", "EB"]),
            "apodize": choose.choice(["0 deg", "5 deg"]),
            "weights": choose.choice(["auto", "hits", "uniform"]),
        }
    return sections


def _map(choose: random.Random, scan: str) -> dict[str, object]:
    """Return where the map is made, and of what."""
    found: dict[str, object] = {"stokes": choose.choice(["I", "QU", "IQU", "IQU", "IQU"])}
    if scan == "satellite" or choose.random() < 0.5:
        found["n_side"] = choose.choice([8, 16, 32] if scan == "satellite" else [32, 64])
        found["ordering"] = choose.choice(["nest", "ring"])
    else:
        found |= {"pixelization": choose.choice(["car", "flat"]), "resolution": "40 arcmin"}
    if choose.random() < 0.5:
        found["frame"] = choose.choice(["galactic", "equatorial", "ecliptic"])
    return found


def _noise(choose: random.Random) -> dict[str, object]:
    """Return how noise is modelled."""
    found: dict[str, object] = {"kernel": choose.choice(["model", "model", "model", "estimate", "white"])}
    if choose.random() < 0.5:
        found["n_lag"] = choose.choice([1, 16, 200, 1000])
    if choose.random() < 0.2:
        found["ends"] = choose.choice(["free", "zero"])
    if choose.random() < 0.3:
        found["interval"] = choose.choice(["4 min", "400 s", "1 h"])
    if found["kernel"] == "estimate":
        found |= {"max_rounds": choose.choice([1, 2])}
        if choose.random() < 0.3:
            found["n_modes"] = 1
    return found


def _solver(choose: random.Random) -> dict[str, object]:
    """Return how the map is solved for."""
    return {
        "tolerance": choose.choice([1e-5, 1e-8, "1% of noise"]),
        "max_iterations": 40,
        "flags": choose.choice(["exact", "exact", "levels", "cut"]),
        "preconditioner": choose.choice(["auto", "auto", "two-level", "block-diagonal"]),
        "rcond_solved": choose.choice([1e-6, 1e-3, 1e-2]),
        "binned_only": choose.random() < 0.05,
    }


def _products(choose: random.Random) -> dict[str, object]:
    """Return what is written beside the map."""
    names = ["filtered", "modes_taken", "sky", "observation_matrix", "pixel_covariance"]
    rates = [0.3, 0.15, 0.3, 0.03, 0.03]
    found: dict[str, object] = {
        name: True for name, rate in zip(names, rates, strict=True) if choose.random() < rate
    }
    return found | {"report": choose.random() < 0.2, "binned_weights": choose.choice(["noise", "uniform"])}


def _sources(choose: random.Random, scan: str, rate: int, n_det: int) -> list[dict[str, object]]:
    """Return what makes the data."""
    n_observations = choose.choice([1, 1, 2, 5])
    minutes = choose.choice([10, 20, 40])
    first: dict[str, object] = {
        "kind": scan, "n_det": n_det, "sample_rate": f"{rate} Hz", "duration": f"{minutes} min",
        "n_observations": n_observations, "spacing": "1 deg", **choose.choice(_SCANS[scan]),
    }  # fmt: skip
    if choose.random() < 0.3:
        first["interval"] = choose.choice(["150 s", "7 min"])
    plate = choose.random() < 0.3
    if plate:
        first["hwp_frequency"] = choose.choice(["0.5 Hz", "1 Hz"])
    found = [first]
    if choose.random() < 0.8:
        found.append({"kind": "sky-spectra", "n_side": 32, "fwhm": "3 deg"})
    if choose.random() < 0.3:
        found.append({"kind": "dipole"})
    if choose.random() < 0.25:
        mode = {"net": "20 uK s^0.5", "fknee": "1 Hz", "fmin": "5 mHz", "alpha": -1.5, "spread": 0.1}
        found.append({"kind": "common-mode", **mode})
    if choose.random() < 0.9:
        found.append({"kind": "noise", **choose.choice(_NOISES)})
    for name in choose.sample(list(_TEMPLATES), choose.choice([0, 0, 1, 1, 2])):
        if name == "leakage" and all(one["kind"] != "sky-spectra" for one in found):
            continue  # nothing could leak
        if scan in (_OF_TEMPLATES.get(name) or _SCANS) and (plate or name != "plate-synchronous"):
            found.append({"kind": name, **choose.choice(_TEMPLATES[name])})
    for more in ("cosmic-rays", "steps", "time-constants"):
        if choose.random() < 0.07:
            found.append({"kind": more} | ({"tau": "0.1 s"} if more == "time-constants" else {}))
    found += [{"kind": "cuts", **one} for one in choose.sample(_FLAGS, choose.choice([0, 0, 1, 2]))]
    return found


def elsewhere(case: int, sections: dict[str, object]) -> tuple[int, list[str]]:
    """Return the ranks that a case is run on as well, and settings that must not change a bit."""
    choose, n_det = random.Random(f"elsewhere {case}"), sections["source"][0]["n_det"]
    shared = "n_modes" in sections["noise"] or any(one["kind"] == "common-mode" for one in sections["source"])
    by_detectors = ["streams"] + ["mixed"] * (n_det == 4) + ["detector-major"] * (n_det > 1)
    options = {
        "resources.threads": [1, 2],
        "resources.pointing": ["keep", "recompute"],
        "comm.distribution": ["auto", "time-major", *([] if shared else by_detectors)],
        "comm.reduction": ["auto", "butterfly", "dense", "hierarchical", "hybrid", "owner", "pairwise"],
        "comm.setup": ["rendezvous", "gather-sift"],
    }
    return choose.choice([2, 3, 5]), [f"{name}={choose.choice(values)}" for name, values in options.items()]


def as_toml(sections: dict[str, object]) -> str:
    """Return a configuration as text."""
    lines = []
    for name, given in sections.items():
        for section in given if isinstance(given, list) else [given]:
            lines.append(f"[[{name}]]" if isinstance(given, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def outcome(words: list[object], out: Path) -> tuple[int, object]:
    """Return the exit code of a command, and the bits of its products, or what its error says."""
    done = run_command([*words, "--out", out, "-q"], SECONDS)
    if done.returncode not in (GOOD, NOT_CONVERGED):
        return done.returncode, done.stderr
    if (out / "summary.json").exists():
        summary = json.loads((out / "summary.json").read_text())
        return done.returncode, {one["file"]: one["sha256"] for one in summary["products"]}
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.glob("*.h5"))}
    return done.returncode, files or done.stderr


def mapped_again(sections: dict[str, object], folder: Path) -> str:
    """Return what came of the map of the volumes that `simulate` has written, and of the configuration's."""
    sources = sections["source"]
    declared = [one for one in sources if one["kind"] in _TEMPLATES]
    if declared or any(one["kind"] in ("common-mode", "time-constants") for one in sources):
        return "same"  # what volumes do not hold is declared again, and may be simulated
    sections.pop("products")
    maps = []
    for name, given in (("direct", sources), ("volumes", [{"kind": "volume", "path": str(folder / "one")}])):
        config = folder / f"{name}.toml"
        config.write_text(as_toml(sections | {"source": given}))
        maps.append(outcome([BIN / "petamap", "run", config], folder / name))
    (code, direct), (code_again, again) = maps
    if code not in (GOOD, NOT_CONVERGED):
        return "typed" if code in (CONFIG, DATA) and code == code_again else f"maps end with {maps}"
    differ = [name for name in direct if not isinstance(again, dict) or direct[name] != again.get(name)]
    return f"maps of volumes differ: {', '.join(differ)}" if differ or code != code_again else "same"


def tried(case: int, folder: Path, command: str) -> str:
    """Return what came of a case, in a word: same, typed or what is wrong."""
    config = folder / "case.toml"
    sections = drawn_montecarlo(case) if command == "mc" else drawn(case)
    config.write_text(as_toml(sections))
    ranks, settings = elsewhere(case, sections)
    if command == "mc":
        choose = random.Random(f"batches {case}")
        settings += [
            f"montecarlo.batch={choose.choice([0, 1, 2])}",
            f"montecarlo.groups={choose.choice([0, 1, 2])}",
        ]
    petamap: list[object] = [BIN / "petamap", command, config]
    code, found = outcome([*petamap, "resources.threads=1"], folder / "one")
    code_elsewhere, found_elsewhere = outcome(
        [BIN / "mpiexec", "-n", ranks, *petamap, *settings], folder / "more"
    )
    (folder / "outcome.txt").write_text(f"{ranks} ranks, {settings}\n{found}\n\n{found_elsewhere}\n")
    if code not in (GOOD, CONFIG, DATA, NOT_CONVERGED) or "Traceback" in str(found):
        return f"ended with {code}"
    if code != code_elsewhere:
        return f"ended with {code}, on {ranks} ranks with {code_elsewhere}"
    if not isinstance(found, dict):
        print(f"case {case}: {str(found).strip()[:300]}", flush=True)
        said = str(found).strip().replace(str(folder / "one"), str(folder / "more"))
        return "typed" if said in str(found_elsewhere) else "another error on several ranks"
    differ = [name for name in found if found[name] != found_elsewhere.get(name)]
    if differ:
        return f"differs: {', '.join(differ)}"
    return mapped_again(sections, folder) if command == "simulate" else "same"


def main(cases: int = 100, first: int = 0, command: str = "run") -> int:
    """Try cases, say what came of each kind, and return how many were wrong."""
    counts: dict[str, int] = {}
    wrong = 0
    for case in range(first, first + cases):
        folder = Path(tempfile.mkdtemp(prefix=f"random-run-{case}-"))
        try:
            came = tried(case, folder, command)
        except Exception as error:
            came = f"{type(error).__name__}: {str(error)[:200]}"
        if came in ("same", "typed"):
            shutil.rmtree(folder)
        else:
            wrong += 1
            print(f"case {case}: {came}: {folder}", flush=True)
        word = came if came in ("same", "typed") else "wrong"
        counts[word] = counts.get(word, 0) + 1
        if (case - first) % 20 == 19:
            print(f"{case - first + 1} cases: {counts}", flush=True)
    print(counts)
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:3]), *sys.argv[3:]), 1))
