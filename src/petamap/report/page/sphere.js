// Pixels of directions and of plane positions. A grid converts positions in its plane to pixels and to
// directions; the viewer uses nothing else of it.

const TAU = 2 * Math.PI;

function ringPixel(n, z, phi) {
  const za = Math.abs(z);
  let tt = (phi / TAU - Math.floor(phi / TAU)) * 4;
  if (tt >= 4) tt = 0;
  if (za <= 2 / 3) {
    const a = n * (0.5 + tt);
    const b = n * z * 0.75;
    const jp = Math.floor(a - b);
    const jm = Math.floor(a + b);
    const ring = n + 1 + jp - jm;
    const shift = 1 - (ring & 1);
    const i = Math.floor((jp + jm - n + shift + 1) / 2) % (4 * n);
    return 2 * n * (n - 1) + (ring - 1) * 4 * n + (i < 0 ? i + 4 * n : i);
  }
  const tp = tt - Math.floor(tt);
  const t = n * Math.sqrt(3 * (1 - za));
  const ring = Math.floor(tp * t) + Math.floor((1 - tp) * t) + 1;
  const i = Math.floor(tt * ring) % (4 * ring);
  return z > 0 ? 2 * ring * (ring - 1) + i : 12 * n * n - 2 * ring * (ring + 1) + i;
}

function nestPixel(n, z, phi) {
  const za = Math.abs(z);
  let tt = (phi / TAU - Math.floor(phi / TAU)) * 4;
  if (tt >= 4) tt = 0;
  let face, x, y;
  if (za <= 2 / 3) {
    const a = n * (0.5 + tt);
    const b = n * z * 0.75;
    const jp = Math.floor(a - b);
    const jm = Math.floor(a + b);
    const fp = Math.floor(jp / n);
    const fm = Math.floor(jm / n);
    face = fp === fm ? (fp & 3) + 4 : fp < fm ? fp : fm + 8;
    x = jm & (n - 1);
    y = n - (jp & (n - 1)) - 1;
  } else {
    const quarter = Math.min(3, Math.floor(tt));
    const tp = tt - quarter;
    const t = n * Math.sqrt(3 * (1 - za));
    const jp = Math.min(Math.floor(tp * t), n - 1);
    const jm = Math.min(Math.floor((1 - tp) * t), n - 1);
    face = z >= 0 ? quarter : quarter + 8;
    x = z >= 0 ? n - jm - 1 : jp;
    y = z >= 0 ? n - jp - 1 : jm;
  }
  return face * n * n + spread(x) + 2 * spread(y);
}

// Put a zero bit between the bits of a number below 2^13.
function spread(v) {
  v = (v | (v << 8)) & 0x00ff00ff;
  v = (v | (v << 4)) & 0x0f0f0f0f;
  v = (v | (v << 2)) & 0x33333333;
  return (v | (v << 1)) & 0x55555555;
}

const wrap = lon => lon - TAU * Math.floor(lon / TAU);

// Full sky as an ellipse of 4 by 2, longitude increasing to the left.
class Mollweide {
  constructor(grid, centre) {
    this.pixel = grid.nest ? nestPixel : ringPixel;
    this.n = grid.n_side;
    this.lon0 = centre[0];
    this.box = [-2, -1, 2, 1];
    this.spherical = true;
  }
  invert(x, y) {
    if (x * x / 4 + y * y >= 1) return null;
    const t = Math.asin(y);
    const z = (2 * t + Math.sin(2 * t)) / Math.PI;
    return [this.lon0 - Math.PI * x / (2 * Math.cos(t)), z];
  }
  pixelAt(x, y) {
    const at = this.invert(x, y);
    return at ? this.pixel(this.n, at[1], at[0]) : -1;
  }
  skyAt(x, y) {
    const at = this.invert(x, y);
    return at && [wrap(at[0]), Math.asin(Math.max(-1, Math.min(1, at[1])))];
  }
  place(lon, lat) {
    let t = lat;
    for (let i = 0; i < 30 && Math.abs(lat) < Math.PI / 2 - 1e-9; i++) {
      const step = (2 * t + Math.sin(2 * t) - Math.PI * Math.sin(lat)) / (2 + 2 * Math.cos(2 * t));
      t -= step;
      if (Math.abs(step) < 1e-7) break;
    }
    let d = wrap(lon - this.lon0 + Math.PI) - Math.PI;
    return [-2 * d / Math.PI * Math.cos(t), Math.sin(t)];
  }
  outline(path) { path.ellipse(0, 0, 2, 1, 0, 0, TAU); }
}

// Half of the sky as a disc of radius 1 seen from inside; dragging rotates it.
class Globe {
  constructor(grid, centre) {
    this.pixel = grid.nest ? nestPixel : ringPixel;
    this.n = grid.n_side;
    this.box = [-1, -1, 1, 1];
    this.spherical = true;
    this.turn(centre[0], centre[1]);
  }
  turn(lon, lat) {
    this.lon0 = wrap(lon);
    this.lat0 = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, lat));
    const [cl, sl, cb, sb] = [Math.cos(lon), Math.sin(lon), Math.cos(this.lat0), Math.sin(this.lat0)];
    this.front = [cb * cl, cb * sl, sb];
    this.east = [-sl, cl, 0];
    this.north = [-sb * cl, -sb * sl, cb];
  }
  direction(x, y) {
    const rest = 1 - x * x - y * y;
    if (rest <= 0) return null;
    const w = Math.sqrt(rest);
    const { front: f, east: e, north: n } = this;
    return [w * f[0] - x * e[0] + y * n[0], w * f[1] - x * e[1] + y * n[1], w * f[2] + y * n[2]];
  }
  pixelAt(x, y) {
    const v = this.direction(x, y);
    return v ? this.pixel(this.n, Math.max(-1, Math.min(1, v[2])), Math.atan2(v[1], v[0])) : -1;
  }
  skyAt(x, y) {
    const v = this.direction(x, y);
    return v && [wrap(Math.atan2(v[1], v[0])), Math.asin(Math.max(-1, Math.min(1, v[2])))];
  }
  place(lon, lat) {
    const v = [Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)];
    const dot = a => a[0] * v[0] + a[1] * v[1] + a[2] * v[2];
    return dot(this.front) > 0 ? [-dot(this.east), dot(this.north)] : null;
  }
  outline(path) { path.arc(0, 0, 1, 0, TAU); }
}

// Rectangle of pixels; plane positions in pixels of the file: pixel (0, 0) covers [0, 1) x [0, 1), y upwards.
class Flat {
  constructor(grid, box) {
    Object.assign(this, grid);
    this.box = box;
    this.spherical = false;
  }
  pixelAt(x, y) {
    const column = Math.floor(x / this.factor);
    const row = Math.floor(y / this.factor);
    const inside = column >= 0 && row >= 0 && column < this.nx && row < this.ny;
    return inside ? row * this.nx + column : -1;
  }
  cellAt(x, y) { return [Math.floor(x), Math.floor(y)]; }
  skyAt(x, y) {
    const w = this.wcs;
    if (!w) return null;
    const a = (x + 0.5 - w.crpix[0]) * w.cdelt[0] * DEG;
    const b = (y + 0.5 - w.crpix[1]) * w.cdelt[1] * DEG;
    const [lon0, lat0] = [w.crval[0] * DEG, w.crval[1] * DEG];
    if (w.projection === "CAR") return [wrap(lon0 + a), lat0 + b];
    const [s, c] = [Math.sin(lat0), Math.cos(lat0)];
    return [wrap(lon0 + Math.atan2(a, c - b * s)), Math.atan2((s + b * c), Math.hypot(a, c - b * s))];
  }
  outline(path) { path.rect(0, 0, this.nx * this.factor, this.ny * this.factor); }
}
