"""Configurations drawn at random: the same bits on other ranks and threads, or the same typed error.

    python tests/support/random_runs.py [CASES [FIRST [COMMAND]]]

Each case is drawn by its number: scans, a sky, noise, flags, templates, bands, splits and products. Its
command (run, mc or simulate) runs in one process on one thread, and on several ranks with another
distribution, reduction and way to keep pointing, and other batches and groups of realizations. Some runs are
asked to stop at any moment, and go on. What `simulate` writes is mapped, too, to the bits of the map of the
configuration itself. What differs is left in a folder, with the configuration.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from commands import kill, run_command
from random_configurations import TEMPLATES, as_toml, drawn, drawn_montecarlo

BIN = Path(sys.executable).parent
SECONDS = 600
GOOD, CONFIG, DATA, NOT_CONVERGED = 0, 2, 3, 4  # exit codes of a run


def elsewhere(case: int, sections: dict[str, object]) -> tuple[int, list[str]]:
    """Return the ranks that a case is run on as well, and settings that must not change a bit."""
    choose, n_det = random.Random(f"elsewhere {case}"), sections["source"][0]["n_det"]
    kinds = {one["kind"] for one in sections["source"]}
    shared = "n_modes" in sections["noise"] or "common-mode" in kinds
    if "demodulation" in kinds or sections["source"][1].get("name") == "second":
        n_det = 1  # observations differ in their detectors
    by_detectors = ["streams"] + ["mixed"] * (n_det == 4) + ["detector-major"] * (n_det > 1)
    options = {
        "resources.threads": [1, 2],
        "resources.pointing": ["keep", "recompute"],
        "comm.distribution": ["auto", "time-major", *([] if shared else by_detectors)],
        "comm.reduction": ["auto", "butterfly", "dense", "hierarchical", "hybrid", "owner", "pairwise"],
        "comm.setup": ["rendezvous", "gather-sift"],
    }
    return choose.choice([2, 3, 5]), [f"{name}={choose.choice(values)}" for name, values in options.items()]


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


def interrupted(words: list[object], out: Path, seconds: float) -> tuple[int, object]:
    """Return what comes of a command that is asked to stop after so many seconds, and goes on."""
    process = subprocess.Popen(
        list(map(str, [*words, "--out", out, "-q"])),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    except BaseException:
        kill(process)
        raise
    return outcome([*words, "--resume"], out)


def mapped_again(sections: dict[str, object], folder: Path) -> str:
    """Return what came of the map of the volumes that `simulate` has written, and of the configuration's."""
    sources = sections["source"]
    declared = [one for one in sources if one["kind"] in TEMPLATES]
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


def compared(found: tuple[int, object], again: tuple[int, object], folders: tuple[Path, Path]) -> str:
    """Return what two outcomes of a case, each in a folder, are: same, typed or what is wrong."""
    (code, bits), (code_again, bits_again) = found, again
    if code not in (GOOD, CONFIG, DATA, NOT_CONVERGED) or "Traceback" in str(bits):
        return f"ended with {code}"
    if code != code_again:
        return f"ended with {code}, then with {code_again}"
    if not isinstance(bits, dict):
        said = str(bits).strip().replace(*map(str, folders))
        return "typed" if said in str(bits_again) else "another error"
    differ = [name for name in bits if bits[name] != bits_again.get(name)]
    return f"differs: {', '.join(differ)}" if differ else "same"


def tried(case: int, folder: Path, command: str) -> str:
    """Return what came of a case, in a word: same, typed or what is wrong."""
    config, one, more, resumed = (folder / name for name in ("case.toml", "one", "more", "resumed"))
    sections = drawn_montecarlo(case) if command == "mc" else drawn(case)
    config.write_text(as_toml(sections))
    ranks, settings = elsewhere(case, sections)
    choose = random.Random(f"batches {case}")
    if command == "mc":
        settings += [f"montecarlo.{name}={choose.choice([0, 1, 2])}" for name in ("batch", "groups")]
    petamap: list[object] = [BIN / "petamap", command, config]
    on_ranks: list[object] = [BIN / "mpiexec", "-n", ranks, *petamap, *settings]
    begun = time.monotonic()
    found = outcome([*petamap, "resources.threads=1"], one)
    seconds = time.monotonic() - begun
    again = outcome(on_ranks, more)
    (folder / "outcome.txt").write_text(f"{ranks} ranks, {settings}\n{found}\n\n{again}\n")
    came = compared(found, again, (one, more))
    if came == "typed":
        print(f"case {case}: {str(found[1]).strip()[:300]}", flush=True)
    if came == "same" and command != "simulate" and choose.random() < 0.4:
        again = interrupted(on_ranks, resumed, choose.uniform(0.3, 1.5) * seconds)
        (folder / "resumed.txt").write_text(f"{again}\n")
        came = compared(found, again, (one, resumed)).replace("differs", "differs after a stop")
    if came == "same" and command == "simulate":
        came = mapped_again(sections, folder)
    return came


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
