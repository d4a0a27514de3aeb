"""Write ``docs/images/map.png`` from the maps of the planck-lfi example.

petamap run --example planck-lfi --out lfi
pip install matplotlib
python docs/make_image.py lfi
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

from petamap.sky.map_file import read_map
from petamap.sky.map_projection import project

IMAGE = Path(__file__).parent / "images" / "map.png"
# product, row, title, limit of the colours in µK
PANELS = (
    ("map", 0, "I, maximum likelihood", 400),
    ("binned", 1, "Q, binned", 200),
    ("map", 1, "Q, maximum likelihood", 200),
)


def draw(folder: Path) -> None:
    """Draw the panels side by side, each with its colours."""
    figure, axes = plt.subplots(1, len(PANELS), figsize=(12, 3.0), facecolor="white", layout="constrained")
    for axis, (kind, row, title, limit) in zip(axes, PANELS, strict=True):
        sky = read_map(folder / f"planck-lfi_{kind}.fits")
        picture = project(sky.values[row], sky.pixelization, "mollweide", width=500)[0] * 1e6
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
