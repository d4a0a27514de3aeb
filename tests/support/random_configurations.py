"""Configurations drawn at random, each by its number."""

from __future__ import annotations

import json
import random

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
TEMPLATES = {
    "baselines": [
        {"length": "30 s"},
        {"length": "1 min", "rms": "1 mK"},
        {"length": "20 s", "prior": "noise"},
    ],
    "offsets": [{}, {"per": "run"}, {"per": "observation", "all_detectors": True, "simulate": "1 mK"}],
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
_OFTEMPLATES = {"baselines": (), "polynomials": ("ground", "raster"), "azimuth-synchronous": ("ground",)}
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
    {"name": "nights", "by": "observations"},
]
_OF_BANDS = [(["*A"], ["*B"]), (["0000*"], ["000[1-9]*"])]
_COMPONENTS = [
    {"name": "cmb", "spectrum": "cmb"},
    {"name": "dust", "spectrum": "dust"},
    {"name": "haze", "spectrum": "factors", "factors": [1.0, 0.4], "polarized": False},
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
    more = random.Random(f"more {case}")
    _add_instruments(more, sections["source"])
    _add_bands(more, sections, n_det)
    if more.random() < 0.1:
        sections["run"]["fraction"] = round(more.uniform(0.3, 1.0), 2)
    return sections


def drawn_montecarlo(case: int) -> dict[str, object]:
    """Return the configuration of realizations of a case."""
    sections, choose = drawn(case), random.Random(f"mc {case}")
    valid = random.Random(f"valid {case}").random() < 0.85
    for name in ("products", "split", "glitches"):
        sections.pop(name, None)
    if valid:
        _leave_refused(sections)
    if sections["map"].pop("pixelization", None):  # spectra are of spheres
        sections["map"] = {"n_side": 32, "stokes": sections["map"]["stokes"]}
    if all(one["kind"] != "sky-spectra" for one in sections["source"]):
        n_scans = sum(one["kind"] in _SCANS for one in sections["source"])
        sections["source"].insert(n_scans, {"kind": "sky-spectra", "n_side": 32, "fwhm": "3 deg"})
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
    if valid:
        _choose_possible(sections)
    return sections


def _leave_refused(sections: dict[str, object]) -> None:
    """Leave away what is refused of data, and of realizations: these are of one map, and of drawn noise."""
    sections.pop("band", None)
    sections.pop("component", None)
    sources, noise = sections["source"], sections["noise"]
    first = sources[0]
    scans = [one for one in sources if one["kind"] in _SCANS]
    rate = int(first["sample_rate"].split()[0])
    if rate < 10 or len(scans) > 1:
        sources[:] = [one for one in sources if one["kind"] != "demodulation"]
    left = {"leakage"} | ({"plate-synchronous"} if len(scans) > 1 else set())
    if any(one["kind"] == "moving-frame" for one in sources):
        left.add("dipole")
    sources[:] = [one for one in sources if one["kind"] not in left]
    if "net" in first or len(scans) > 1:
        sources[:] = [one for one in sources if one["kind"] != "noise"]
        sources.append({"kind": "noise", **({} if all("net" in one for one in scans) else _NOISES[0])})
    elif all(one["kind"] != "noise" for one in sources):
        sources.append({"kind": "noise", **_NOISES[0]})
    # templates are of the streams that are mapped, and noise is none that baselines have as their prior
    sources.sort(key=lambda one: one["kind"] in TEMPLATES)
    for one in sources:
        if one["kind"] == "baselines":
            one.pop("prior", None)
    if any(one["n_det"] == 1 for one in scans):
        noise.pop("n_modes", None)


def _choose_possible(sections: dict[str, object]) -> None:
    """Choose what goes together of the options of realizations."""
    chosen, sources = sections["montecarlo"], sections["source"]
    if not any(one["kind"] in TEMPLATES for one in sources):
        chosen["estimator"] = "maximum-likelihood"
    if chosen["estimator"] == "filter-and-bin":
        chosen["vectors"] = 0
    if chosen["parts"] in ("sky", "noise") and chosen["fixed"] == "add":
        chosen["fixed"] = "leave"
    if sections["map"]["stokes"] == "I" and "spectra" in sections:
        sections["spectra"]["purify"] = "none"


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
    for name in choose.sample(list(TEMPLATES), choose.choice([0, 0, 1, 1, 2])):
        if name == "leakage" and all(one["kind"] != "sky-spectra" for one in found):
            continue  # nothing could leak
        if scan in (_OFTEMPLATES.get(name) or _SCANS) and (plate or name != "plate-synchronous"):
            found.append({"kind": name, **choose.choice(TEMPLATES[name])})
    for more in ("cosmic-rays", "steps", "time-constants"):
        if choose.random() < 0.07:
            found.append({"kind": more} | ({"tau": "0.1 s"} if more == "time-constants" else {}))
    found += [{"kind": "cuts", **one} for one in choose.sample(_FLAGS, choose.choice([0, 0, 1, 2]))]
    return found


def _add_instruments(choose: random.Random, sources: list[dict[str, object]]) -> None:
    """Add a second telescope, moving coordinates, point sources, demodulation or detectors with noise."""
    first = sources[0]
    if choose.random() < 0.2:
        kind = choose.choice(list(_SCANS))
        second = {"kind": kind, "name": "second", "n_det": choose.choice([1, 2, 3]), "sample_rate": "8 Hz"}
        second |= {"duration": "15 min", "spacing": "2 deg", **choose.choice(_SCANS[kind])}
        first["frame"] = second["frame"] = choose.choice(["galactic", "equatorial"])
        sources.insert(1, second)
    elif choose.random() < 0.08:
        centre = choose.choice(["horizon", "jupiter", "sun"])
        site = {"site_latitude": "-23 deg", "site_longitude": "-68 deg"}
        sources.insert(1, {"kind": "moving-frame", "centre": centre, **site})
    if choose.random() < 0.1:
        sources.append({"kind": "point-sources", "sources": ["10 deg, 5 deg, 1 mK, 2 deg"]})
    if first.get("hwp_frequency") and choose.random() < 0.3:
        sources.append({"kind": "demodulation", **choose.choice([{}, {"downsample": 2}, {"dilate": False}])})
    if choose.random() < 0.15:
        first |= {"net": "80 uK s^0.5", "fknee": "0.2 Hz", "fmin": "2 mHz", "epsilon": 0.1}


def _add_bands(choose: random.Random, sections: dict[str, object], n_det: int) -> None:
    """Add bands, and components that these see."""
    if n_det == 1 or choose.random() > 0.2:
        return
    groups = _OF_BANDS[0] if n_det == 2 else choose.choice(_OF_BANDS)
    frequencies = {"90": "90 GHz", "150": "150 GHz"}
    sections["band"] = [
        {"name": name, "frequency": frequency, "detectors": detectors}
        for (name, frequency), detectors in zip(frequencies.items(), groups, strict=True)
    ]
    if choose.random() < 0.8:  # what bands do not have would be refused
        sections.pop("split", None)
        for name in ("filtered", "modes_taken", "observation_matrix", "demodulated"):
            sections["products"].pop(name, None)
    if choose.random() < 0.5:
        sections["component"] = choose.sample(_COMPONENTS, choose.choice([1, 2]))


def as_toml(sections: dict[str, object]) -> str:
    """Return a configuration as text."""
    lines = []
    for name, given in sections.items():
        for section in given if isinstance(given, list) else [given]:
            lines.append(f"[[{name}]]" if isinstance(given, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"
