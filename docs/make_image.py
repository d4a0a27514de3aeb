"""Write ``docs/images/map.png`` from the maps of the planck-lfi example.

petamap run --example planck-lfi --out lfi
pip install matplotlib
python docs/make_image.py lfi
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

from petamap.sky.image import unit_vectors
from petamap.sky.map_file import read_map
from petamap.sky.pixelization import Pixelization

IMAGE = Path(__file__).parent / "images" / "map.png"
# product, row, title, limit of the colours in µK
PANELS = (
    ("map", 0, "I, maximum likelihood", 400),
    ("binned", 1, "Q, binned", 200),
    ("map", 1, "Q, maximum likelihood", 200),
)


def mollweide(values: np.ndarray, pixelization: Pixelization, width: int) -> np.ndarray:
    """Return the full sky in an ellipse, longitude increasing to the left (Calabretta & Greisen 2002)."""
    height = width // 2
    x = (2 * np.arange(width) + 1 - width) / width  # from -1 at the left edge to 1
    auxiliary = np.arcsin((height - 1 - 2 * np.arange(height)) / height)
    lat = np.arcsin((2 * auxiliary + np.sin(2 * auxiliary)) / np.pi)
    lon = -np.pi * x[None, :] / np.cos(auxiliary)[:, None]
    directions = unit_vectors(lon, np.broadcast_to(lat[:, None], lon.shape))
    directions[np.abs(lon) > np.pi] = 0
    index = np.empty(height * width, np.int32)
    pixelization.pixels_of(directions.reshape(-1, 3), index)
    return np.where(index >= 0, values[index], np.nan).reshape(height, width)


def draw(folder: Path) -> None:
    """Draw the panels side by side, each with its colours."""
    figure, axes = plt.subplots(1, len(PANELS), figsize=(12, 3.0), facecolor="white", layout="constrained")
    for axis, (kind, row, title, limit) in zip(axes, PANELS, strict=True):
        sky = read_map(folder / f"planck-lfi_{kind}.fits")
        picture = mollweide(sky.values[row], sky.pixelization, width=500) * 1e6
        shown = axis.imshow(picture, vmin=-limit, vmax=limit, cmap="RdYlBu_r", interpolation="nearest")
        axis.set_title(title, pad=8)
        axis.axis("off")
        figure.colorbar(shown, ax=axis, orientation="horizontal", shrink=0.6, label="µK")
    figure.get_layout_engine().set(h_pad=0.1)
    figure.savefig(IMAGE, dpi=100)
    coloured = Image.open(IMAGE).convert("RGB")
    coloured.quantize(256, method=Image.Quantize.FASTOCTREE).save(IMAGE, optimize=True)
    print(f"wrote {IMAGE}, {IMAGE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
