"""Tests of the table of results of a run."""

from petamap.cli.closing_table import closing_table


def test_closing_table(make_summary, tmp_path):
    summary = make_summary()
    said = closing_table(summary, tmp_path / "report.html")
    for words in (
        "converged    yes, the residual is below the tolerance",
        "iterations   45, relative residual 1.04e-10",
        "map error    at most 4.2e-05% of its noise in any mode (large scales: about 4.1e-08%)",
        "samples      30,984,215 used of 31,104,000 (99.6%)",
        "pixels       12,288 observed, 3 cut, 12,285 mapped (12.3% of the map)",
        "peak memory  436 MB a rank in all (pointing and flags kept: 14.0 B a sample)",
        f"report       {tmp_path / 'report.html'}",
        "warnings     1, each told above",
    ):
        assert words in said
    assert "solve" in said
    alone = closing_table(make_summary(solver=None, warnings=()), None)
    assert "converged" not in alone
    assert "report" not in alone
