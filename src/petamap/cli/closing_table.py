"""Table of results printed at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from petacomm.base.text import table_lines
from petacomm.cli.progress import format_duration, format_scaled
from petamap.data.run_summary import DetectorGlitches, ModesTaken, PhaseCost, Solver, Split, Summary
from petamap.mapmaking.stop_rule import noise_share
from petamap.noise.band import describe_bands, format_share

_NOTHING_TAKEN = 1e-3


def closing_table(summary: Summary, report: Path | None) -> str:
    """Return the table of the results of a run; its warnings were shown when they were found."""
    totals, memory, solver = summary.totals, summary.memory, summary.solver
    rows = [("run", summary.title or summary.name)]
    if solver is not None:
        state = "yes" if solver.converged else "NO"
        rows.append(("converged", f"{state}, {solver.reason}"))
        rows.append(("iterations", f"{solver.iterations}, relative residual {solver.relative_residual:.2e}"))
        if solver.error_bound is not None:
            rows.append(("map error", _error(solver)))
        if solver.preconditioner:
            rows.append(("solver", solver.preconditioner))
        if solver.undetermined:
            rows.append(("undetermined", _undetermined(solver)))
    rows += [(f"split {split.name}", _split(split)) for split in summary.splits]
    if summary.resumed:
        times = "once" if summary.resumed == 1 else f"{summary.resumed} times"
        rows.append(("resumed", f"{times}; phases are those of the last part"))
    used = (
        f"{totals.samples_used:,} used of {totals.samples:,} ({_share(totals.samples_used, totals.samples)})"
    )
    if totals.samples_unwritten:
        used += f", {totals.samples_unwritten:,} solved for in pixels that are cut"
    rows.append(("samples", used))
    solved = totals.pixels_observed - totals.pixels_cut
    seen = f"{totals.pixels_observed:,} observed, {totals.pixels_cut:,} cut"
    n_maps = len(summary.components or summary.bands)
    of = f"{n_maps} maps" if n_maps else "the map"
    rows.append(("pixels", f"{seen}, {solved:,} mapped ({_share(solved, totals.pixels)} of {of})"))
    if (noise := summary.noise) is not None and noise.shortest is not None:
        bands = noise.shortest - 1, noise.n_lag - 1
        rows.append(("noise", describe_bands(*bands, noise.loss, noise.misstated)))
    if noise is not None and noise.rounds is not None:
        changed = "" if noise.change is None else f", the last changed it by {format_share(noise.change)}"
        times = "1 round" if noise.rounds == 1 else f"{noise.rounds} rounds"
        rows.append(("noise from data", f"{times}{changed}"))
    rows += _modes_taken(summary.modes_taken)
    if summary.glitches is not None:
        rows.append(("found in data", _glitches(summary.glitches)))
    rows += [(phase.name, _seconds(phase)) for phase in summary.phases]
    peak = format_scaled(memory.peak_bytes, "B")
    kept = f"pointing and flags kept: {memory.bytes_per_sample:.1f} B a sample"
    rows.append(("peak memory", f"{peak} a rank in all ({kept})"))
    if summary.warnings:
        rows.append(
            ("warnings", f"{len(summary.warnings)}, each told above; also in the report and summary.json")
        )
    if report is not None:
        rows.append(("report", str(report)))
    return "\n".join(aligned_rows(rows))


def _seconds(phase: PhaseCost) -> str:
    """Return wall seconds of the slowest rank, and the most that one used processors and communicated."""
    text = format_duration(phase.seconds.max)
    if phase.cpu_seconds is not None:
        text = f"{text:<11} processors {format_duration(phase.cpu_seconds.max)}"
    if phase.communication_seconds is not None and phase.communication_seconds.max > 0:
        text = f"{text:<34} communication {format_duration(phase.communication_seconds.max)}"
    return text


def _split(split: Split) -> str:
    """Return the null test of a split, and how its solution ended where it did not converge."""
    text = f"{len(split.parts)} parts"
    if split.null is not None and not split.null.degrees_of_freedom:
        text += ", no pixel is in two of them: nothing to compare"
    elif split.null is not None:
        text += (
            f", chi-squared {split.null.chi_squared:.1f} of {split.null.degrees_of_freedom:,} "
            f"(probability {split.null.probability:.2g})"
        )
    if split.solver is not None and not split.solver.converged:
        text += f", NOT CONVERGED: {split.solver.reason}"
    return text


def _error(solver: Solver) -> str:
    """Return how far the map may be off for want of further iterations."""
    assert solver.error_bound is not None
    text = f"at most {noise_share(solver.error_bound)} in any mode"
    if solver.coarse_error is not None:
        text += f" (large scales: about {noise_share(solver.coarse_error).removesuffix(' of its noise')})"
    return text


def _undetermined(solver: Solver) -> str:
    """Return the modes of the map that the data say nothing of."""
    it, is_ = ("it", "it is") if len(solver.undetermined) == 1 else ("them", "they are")
    modes = ", ".join(solver.undetermined)
    return f"{modes}: templates imitate {it}, so {is_} left at zero over all samples"


def _modes_taken(scales: Sequence[ModesTaken]) -> list[tuple[str, str]]:
    """Return a row for I and one for Q and U: what templates take of the largest scales."""
    rows = []
    for name, kind in (("templates take", "intensity"), ("of Q and U", "polarization")):
        shares = {(one.l_first, one.l_last): getattr(one, kind) for one in scales}
        known = {scale: share for scale, share in shares.items() if share is not None}
        shown = [
            f"{format_share(share)} at l = {first} to {last}"
            for (first, last), share in known.items()
            if share > _NOTHING_TAKEN
        ]
        if known:
            rows.append((name, ", ".join(shown[:4]) or "less than 0.1% of any scale"))
    return rows


def _glitches(found: Sequence[DetectorGlitches]) -> str:
    glitches, steps, samples = (
        sum(getattr(one, what) for one in found) for what in ("glitches", "steps", "samples")
    )
    return (
        f"{glitches:,} glitches and {steps:,} steps in {len(found):,} detectors, {samples:,} samples flagged"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / max(whole, 1):.1%}"


def aligned_rows(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines of names and texts, in two columns."""
    return [f"  {line}" for line in table_lines(rows, left=2)]
