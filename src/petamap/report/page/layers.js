// Embedded maps: runs of pixels with a value, in ascending order, and their values.

function words(text, kind) {
  const raw = atob(text);
  const buffer = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) buffer[i] = raw.charCodeAt(i);
  return new kind(buffer.buffer);
}

function openGrid(grid) {
  const runs = words(grid.runs, Int32Array); // first pixel, number of pixels, ...
  grid.first = runs.filter((_, i) => i % 2 === 0);
  grid.offset = new Int32Array(grid.first.length + 1);
  grid.first.forEach((_, i) => { grid.offset[i + 1] = grid.offset[i] + runs[2 * i + 1]; });
  return grid;
}

// Index of the value of a pixel, or -1.
function slot(grid, pixel) {
  const { first, offset } = grid;
  let low = 0;
  let high = first.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (first[middle] <= pixel) low = middle + 1; else high = middle - 1;
  }
  if (high < 0) return -1;
  const within = pixel - first[high];
  return within < offset[high + 1] - offset[high] ? offset[high] + within : -1;
}

const UNSEEN = 65535;

function openLayer(layer) {
  if (layer.values) return layer;
  if (layer.encoding === "float32") {
    layer.values = words(layer.data, Float32Array);
  } else {
    const { from, to, scale } = layer;
    layer.values = Float32Array.from(words(layer.data, Uint16Array), q =>
      q === UNSEEN ? NaN : scale * Math.sinh(from + q * (to - from) / (UNSEEN - 1)));
  }
  layer.data = null;
  const size = Math.max(Math.abs(layer.show_from), Math.abs(layer.show_to));
  [layer.factor, layer.readable] = readable(layer.unit, size);
  resetRange(layer);
  return layer;
}

// Range that shows most of the values; symmetric for a diverging palette.
function resetRange(layer) {
  if (layer.palette === "balance") {
    layer.high = Math.max(Math.abs(layer.show_from), Math.abs(layer.show_to)) || 1;
    layer.low = -layer.high;
  } else {
    layer.low = layer.show_from;
    layer.high = layer.show_to > layer.show_from ? layer.show_to : layer.show_from + (Math.abs(layer.show_from) || 1);
  }
}
