"""Write the table of ``docs/petamap/experiments.md`` from what the planner says of each experiment.

python docs/make_experiments.py [NAME ...]

Takes about a minute for each experiment; with names, only their rows are made anew.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "petamap" / "experiments.md"
_TABLE = re.compile(r"(<!-- experiments -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_HEAD = (
    "| experiment | detectors | samples, Table 1 | samples | pixels seen | cores | signal | memory a node "
    "| set-up and data | iterations | core hours |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
)
_FIGURES = re.compile(
    r"^(?P<samples>\S+) samples, (?P<pixels>\S+) of .*"
    r"^run: (?P<signal>.+) of signal; (?P<memory>.+) a node, .*"
    r"^time: set-up and data (?P<around>.+), (?P<iterations>\d+) iterations (?P<iterating>.+); "
    r"(?P<hours>.+) core hours$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Experiment:
    """An example to plan with: title, detectors, samples in Table 1 of the source, and cores of a plan."""

    name: str
    title: str
    n_det: int
    published: float | None
    cores: int

    @property
    def command(self) -> list[str]:
        """The words of its plan."""
        what = ["--example", self.name, "--ranks", str(self.cores), "--machine", "perlmutter"]
        return ["petamap", "plan", *what]


EXPERIMENTS = (
    Experiment("cobe", "COBE", 6, 8e8, 128),
    Experiment("boomerang", "BOOMERanG", 16, 9e8, 128),
    Experiment("wmap", "WMAP", 40, 2e11, 1024),
    Experiment("planck", "Planck", 74, 6e11, 4096),
    Experiment("ebex", "EBEX", 1406, 7e11, 4096),
    Experiment("polarbear", "PolarBeaR", 2548, 3e13, 16384),
    Experiment("quiet", "QUIET-II", 11200, 1e14, 16384),
    Experiment("epic", "CMBPol/EPIC", 1620, 2e14, 16384),
    Experiment("litebird", "LiteBIRD", 4508, None, 4096),
    Experiment("simons-sat", "Simons Observatory, a SAT", 12000, None, 16384),
    Experiment("simons-lat", "Simons Observatory, LAT", 30000, None, 16384),
    Experiment("cmb-s4", "CMB-S4, a large telescope", 137500, None, 65536),
)


def row(experiment: Experiment) -> str:
    """Return the row of an experiment, of what its plan prints."""
    program = Path(sys.executable).parent / experiment.command[0]
    done = subprocess.run(
        [program, *experiment.command[1:]], capture_output=True, text=True, timeout=900, check=False
    )
    found = _FIGURES.search(done.stdout)
    if found is None:
        raise SystemExit(f"{' '.join(experiment.command)}: {done.stdout}{done.stderr}")
    published = f"{experiment.published:.0e}".replace("e+", "e") if experiment.published else "-"
    cells = (
        f"{experiment.title}, `{experiment.name}`", f"{experiment.n_det:,}", published, found["samples"],
        found["pixels"], f"{experiment.cores:,}", found["signal"], found["memory"], found["around"],
        f"{found['iterations']} in {found['iterating']}", found["hours"],
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main(names: list[str]) -> None:
    """Make the rows of some experiments, or of all, anew."""
    for experiment in EXPERIMENTS:
        if names and experiment.name not in names:
            continue
        made = row(experiment)
        text = PAGE.read_text(encoding="utf-8")
        match = _TABLE.search(text)
        assert match is not None
        rows = {line.split("`")[1]: line for line in match[2].splitlines()[2:]} | {experiment.name: made}
        table = "".join(f"{rows[one.name]}\n" for one in EXPERIMENTS if one.name in rows)
        changed = f"{text[: match.end(1)]}{_HEAD}{table}{text[match.start(3) :]}"
        PAGE.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
