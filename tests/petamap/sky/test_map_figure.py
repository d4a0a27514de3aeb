"""Figures of maps: what stands where, in which range and unit."""

import sys

import numpy as np
import pytest

from petacomm.base.errors import ConfigError, ResourceError
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.map_figure import colour_range
from petamap.sky.numbered import ImageLayout, NumberedPixels
from petamap.sky.sky_map import SkyMap

pytest.importorskip("matplotlib").use("Agg")
RNG = np.random.default_rng(6)


@pytest.fixture(autouse=True)
def closed():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def spot(pixelization, lon, lat, width):
    """Return a map that is 1 within `width` of a direction and 0 elsewhere, all angles in degrees."""
    lon, lat = np.radians((lon, lat))
    centre = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    near = pixelization.directions_of(np.arange(pixelization.n_pix)) @ centre > np.cos(np.radians(width))
    return SkyMap(near[None] * 1.0, pixelization, ("I",), ("K_CMB",), "galactic")


def place_of_ones(panel):
    """Return the mean place of the pixels of value 1, in the panel's own coordinates."""
    drawn = panel.images[0]
    rows, columns = np.nonzero(np.asarray(drawn.get_array().filled(0)) > 0.5 * drawn.get_array().max())
    left, right, low, high = drawn.get_extent()
    n_rows, n_columns = drawn.get_array().shape
    x = left + (columns.mean() + 0.5) / n_columns * (right - left)
    return x, low + (rows.mean() + 0.5) / n_rows * (high - low)


def test_the_whole_sky_has_north_above_and_east_to_the_left():
    for lon, lat, x, y in [(90, 0, 1.0, 0.0), (270, 0, -1.0, 0.0), (0, 60, 0.0, 0.762)]:
        figure, (panel,) = spot(Healpix(64), lon, lat, 4).plot(limits=(0, 1))
        found = place_of_ones(panel)
        assert found == pytest.approx((x, y), abs=0.01)  # in units of the ellipse, longitude growing with x
        left, right, *_ = panel.images[0].get_extent()
        assert left > right
        assert figure is panel.figure


def test_what_is_seen_is_zoomed_at():
    whole = spot(Healpix(256), 302.0, 41.0, 0.4)
    patch = whole.masked(spot(Healpix(256), 300.0, 40.0, 5.0).values[0])
    _, (panel,) = patch.plot(limits=(0, 1))
    x, y = place_of_ones(panel)
    assert (x, y) == pytest.approx((2 * np.cos(np.radians(41)), 1.0), abs=0.1)
    left, right, low, high = panel.images[0].get_extent()
    assert 10 < left - right < 11.5 and 10 < high - low < 11.5
    assert np.isnan(panel.images[0].get_array().filled(np.nan)[0, 0])
    with pytest.raises(ConfigError, match="wider"):
        whole.plot(projection="gnomonic")


@pytest.mark.parametrize("step", [0.5, -0.5])
def test_images_are_shown_as_they_are(step):
    patch = CarPatch((30.0, 0.0), (20.5, 50.5), (step, 0.5), (80, 40))
    _, (panel,) = spot(patch, 33.0, -4.0, 1.0).plot(limits=(0, 1))
    assert place_of_ones(panel) == pytest.approx((33.0, -4.0), abs=0.3)
    assert panel.get_xlabel() == "Galactic longitude (deg)"
    left, right, low, high = panel.images[0].get_extent()
    assert left > right and high > low


def test_flat_patches_and_numbered_pixels():
    patch = FlatPatch.box((266.4, -29.0), (4.0, 3.0), 0.1)
    _, (panel,) = spot(patch, 266.4, -28.0, 0.2).plot(limits=(0, 1))
    assert place_of_ones(panel) == pytest.approx((0.0, 1.0), abs=0.06)
    layout = ImageLayout((2, 3), np.array([5, 0]))
    numbered = SkyMap(np.array([[1.0, 0.0]]), NumberedPixels(2, layout), ("I",), ("Jy/beam",))
    _, (panel,) = numbered.plot(limits=(0, 1))
    assert place_of_ones(panel) == (3.0, 2.0)
    with pytest.raises(ConfigError, match="no place"):
        SkyMap(np.ones((1, 2)), NumberedPixels(2), ("I",), ("",)).plot()
    with pytest.raises(ConfigError, match="gnomonic"):
        spot(Healpix(4), 0, 0, 20).plot(projection="image")
    with pytest.raises(ConfigError, match="did you mean 'mollweide'"):
        spot(Healpix(4), 0, 0, 20).plot(projection="molweide")


def test_panels_units_and_titles():
    values = RNG.normal(size=(3, 192)) * 1e-4
    one = SkyMap(values, Healpix(4), ("I", "Q", "U"), ("K_CMB",) * 3)
    figure, axes = one.plot(title="a night")
    assert [panel.get_title() for panel in axes] == ["I", "Q", "U"]
    assert figure.get_suptitle() == "a night"
    drawn = axes[0].images[0]
    assert drawn.colorbar.ax.get_xlabel() == "µK_CMB"
    assert drawn.get_clim() == pytest.approx(np.array(colour_range(values[0])) * 1e6)
    assert np.nanmax(drawn.get_array()) == pytest.approx(values[0].max() * 1e6)
    _, axes = one.plot("Q", limits=(-1e-6, 1e-6))
    assert len(axes) == 1 and axes[0].images[0].get_clim() == pytest.approx((-1, 1))


@pytest.mark.parametrize("names", ["I", "IQU"])
@pytest.mark.parametrize("pixelization", [Healpix(4), CarPatch.box((0, 0), (20, 10), 1.0)])
def test_a_title_is_above_those_of_panels(names, pixelization):
    values = RNG.normal(size=(len(names), pixelization.n_pix))
    figure, axes = SkyMap(values, pixelization, names, "K_CMB").plot(title="Maximum likelihood")
    figure.canvas.draw()
    lowest = figure.get_suptitle() and figure._suptitle.get_window_extent().y0
    assert all(panel.title.get_window_extent().y1 < lowest for panel in axes)


@pytest.mark.parametrize("limits", [5, (1e-6, -1e-6), (0, 1, 2), "ab", (0, np.nan)])
def test_limits_are_two_numbers(limits):
    with pytest.raises(ConfigError, match=r"limits of .*two numbers"):
        spot(Healpix(4), 0, 0, 20).plot(limits=limits)


def test_ranges():
    normal = RNG.normal(size=100_000)
    low, high = colour_range(normal)
    assert low == -high and 2.2 < high < 2.5  # 98 % of a normal distribution
    assert colour_range(np.arange(1001.0)) == pytest.approx((0, 990))
    assert colour_range(np.array([2.5, 2.6, np.nan])) == pytest.approx((2.501, 2.599))
    assert colour_range(np.full(3, np.nan)) == (0, 1)
    low, high = colour_range(np.full(3, 7.0))
    assert low <= 7 < high


def test_nothing_observed_is_drawn():
    figure, _ = SkyMap(np.full((1, 192), np.nan), Healpix(4), ("I",), ("K_CMB",)).plot()
    figure.canvas.draw()


def test_without_matplotlib_there_is_a_mend(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ResourceError, match="petamap\\[plot\\]"):
        spot(Healpix(4), 0, 0, 20).plot()
