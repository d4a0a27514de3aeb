// Colour maps with uniform steps of lightness (Oklab), computed so that no table has to be shipped.

const DEG = Math.PI / 180;

function oklch(l, c, h) {
  const a = c * Math.cos(h * DEG);
  const b = c * Math.sin(h * DEG);
  const [p, q, r] = [
    (l + 0.3963377774 * a + 0.2158037573 * b) ** 3,
    (l - 0.1055613458 * a - 0.0638541728 * b) ** 3,
    (l - 0.0894841775 * a - 1.291485548 * b) ** 3,
  ];
  return [
    4.0767416621 * p - 3.3077115913 * q + 0.2309699292 * r,
    -1.2684380046 * p + 2.6097574011 * q - 0.3413193965 * r,
    -0.0041960863 * p - 0.7034186147 * q + 1.707614701 * r,
  ];
}

const onScreen = rgb => rgb.every(v => v >= 0 && v <= 1);

// The colour of lightness l and hue h with chroma c, reduced to the sRGB gamut.
function shown(l, c, h) {
  let low = 0;
  let high = c;
  if (onScreen(oklch(l, c, h))) low = c;
  while (high - low > 1e-4) {
    const middle = (low + high) / 2;
    if (onScreen(oklch(l, middle, h))) low = middle; else high = middle;
  }
  return oklch(l, low, h).map(v => {
    const u = Math.max(0, Math.min(1, v));
    return Math.round(255 * (u <= 0.0031308 ? 12.92 * u : 1.055 * u ** (1 / 2.4) - 0.055));
  });
}

const PALETTES = {
  dusk: t => shown(0.16 + 0.8 * t, 0.05 + 0.56 * t * (1 - t), 275 + 180 * t),
  balance: t => {
    const s = 2 * t - 1;
    const d = Math.abs(s);
    return shown(0.97 - 0.6 * d, 0.22 * d ** 0.8, s < 0 ? 258 : 29);
  },
  grey: t => shown(0.12 + 0.86 * t, 0, 0),
};
const PALETTE_NAMES = { dusk: "Dusk", balance: "Balance ±", grey: "Grey" };
const LEVELS = 512;

// A palette as LEVELS words for an ImageData seen as Uint32 (little-endian RGBA).
const lookupTables = {};
function lookupTable(name) {
  return lookupTables[name] ??= Uint32Array.from({ length: LEVELS }, (_, i) => {
    const [r, g, b] = PALETTES[name](i / (LEVELS - 1));
    return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  });
}

function gradient(name) {
  const stops = Array.from({ length: 33 }, (_, i) => `rgb(${PALETTES[name](i / 32).join(" ")})`);
  return `linear-gradient(to right, ${stops.join(", ")})`;
}
