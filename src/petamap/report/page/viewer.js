// Map viewer: one canvas, drawn pixel by pixel through a projection.

class Viewer {
  constructor(canvas, onRead) {
    this.canvas = canvas;
    this.onRead = onRead;
    this.pointers = new Map();
    this.cursor = null;
    this.graticule = true;
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.listen();
  }

  // Show a layer; the view is kept if grid and projection do not change.
  show(layer, grid, projection) {
    const same = this.projection === projection;
    Object.assign(this, { layer, grid, projection });
    if (!same) this.reset();
    this.draw();
    this.read();
  }

  reset() {
    const p = this.projection;
    if (p instanceof Globe) p.turn(...this.grid.centre);
    const [rx, ry] = this.grid.reach ?? [];
    const [x0, y0, x1, y1] = p instanceof Globe ? [-rx, -ry, rx, ry] : p.box;
    this.centre = [(x0 + x1) / 2, (y0 + y1) / 2];
    this.extent = [x1 - x0, y1 - y0];
    this.zoom = 1;
  }

  // Plane units per CSS pixel.
  get step() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    return 1.04 * Math.max(this.extent[0] / w, this.extent[1] / h) / this.zoom;
  }

  plane(px, py) {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    return [this.centre[0] + (px - w / 2) * this.step, this.centre[1] - (py - h / 2) * this.step];
  }

  screen(x, y) {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    return [w / 2 + (x - this.centre[0]) / this.step, h / 2 - (y - this.centre[1]) / this.step];
  }

  draw(quick = false) {
    clearTimeout(this.later);
    if (quick) this.later = setTimeout(() => this.draw(), 120);
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint(quick));
  }

  paint(quick) {
    const { canvas, layer } = this;
    const { clientWidth: w, clientHeight: h } = canvas;
    if (!layer || !w || !h) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const density = quick ? 0.5 : ratio;
    const image = this.raster(Math.round(w * density), Math.round(h * density));
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    const context = canvas.getContext("2d");
    const buffer = new OffscreenCanvas(image.width, image.height);
    buffer.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = quick;
    context.drawImage(buffer, 0, 0, canvas.width, canvas.height);
    context.scale(canvas.width / w, canvas.height / h);
    this.frameLines(context);
  }

  raster(columns, rows) {
    const { layer, grid, projection } = this;
    const image = new ImageData(columns, rows);
    const out = new Uint32Array(image.data.buffer);
    const table = lookupTable(layer.palette);
    const per = LEVELS / (layer.high - layer.low);
    const empty = this.emptyColour();
    const ratio = this.canvas.clientWidth / columns;
    for (let j = 0, at = 0; j < rows; j++) {
      for (let i = 0; i < columns; i++, at++) {
        const [x, y] = this.plane((i + 0.5) * ratio, (j + 0.5) * ratio);
        const pixel = projection.pixelAt(x, y);
        if (pixel < 0) continue;
        const where = slot(grid, pixel);
        const value = where < 0 ? NaN : layer.values[where];
        out[at] = value === value
          ? table[Math.max(0, Math.min(LEVELS - 1, Math.floor((value - layer.low) * per)))]
          : empty;
      }
    }
    return image;
  }

  emptyColour() {
    const [r, g, b] = getComputedStyle(this.canvas).getPropertyValue("--unseen").split(",").map(Number);
    return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  }

  frameLines(context) {
    const style = getComputedStyle(this.canvas);
    context.save();
    context.lineWidth = 1;
    if (this.projection.spherical && this.graticule) this.drawGraticule(context);
    context.strokeStyle = style.getPropertyValue("--edge");
    const path = new Path2D();
    const unit = new Path2D();
    this.projection.outline(unit);
    const [ox, oy] = this.screen(0, 0);
    path.addPath(unit, new DOMMatrix([1 / this.step, 0, 0, -1 / this.step, ox, oy]));
    context.stroke(path);
    if (this.cursor && this.canvas.matches(":focus-visible")) this.drawCross(context, style);
    context.restore();
  }

  drawCross(context, style) {
    const [x, y] = this.cursor;
    for (const [colour, width] of [[style.getPropertyValue("--page"), 4], [style.getPropertyValue("--ink"), 1.5]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(x + 5 * dx, y + 5 * dy);
        context.lineTo(x + 14 * dx, y + 14 * dy);
      }
      context.stroke();
    }
  }

  drawGraticule(context) {
    const line = (count, at) => {
      let last = null;
      for (let i = 0; i <= count; i++) {
        const place = this.projection.place(...at(i / count));
        const here = place && this.screen(...place);
        const joined = last && here && Math.hypot(here[0] - last[0], here[1] - last[1]) < 0.5 * this.canvas.clientWidth;
        if (joined) context.lineTo(...here); else if (here) context.moveTo(...here);
        last = here;
      }
    };
    context.save();
    context.strokeStyle = this.layer.palette === "balance" ? "rgb(0 0 0 / .3)" : "rgb(255 255 255 / .38)";
    context.beginPath();
    const gap = this.zoom * (this.projection instanceof Globe ? 1 / Math.max(...this.grid.reach) : 1) > 4 ? 10 : 30;
    for (let lon = 0; lon < 360; lon += gap) line(90, t => [lon * DEG, (t - 0.5) * 178 * DEG]);
    for (let lat = gap - 90; lat < 90; lat += gap) line(180, t => [t * TAU, lat * DEG]);
    context.stroke();
    context.restore();
  }

  // Show position and value under the cursor.
  read() {
    if (!this.layer || !this.cursor) return this.onRead(null);
    const [x, y] = this.plane(...this.cursor);
    const pixel = this.projection.pixelAt(x, y);
    if (pixel < 0) return this.onRead(null);
    const where = slot(this.grid, pixel);
    return this.onRead({
      pixel,
      cell: this.projection.cellAt?.(x, y),
      sky: this.projection.skyAt(x, y),
      value: where < 0 ? NaN : this.layer.values[where],
    });
  }

  pan(dx, dy) {
    if (this.projection instanceof Globe) {
      const p = this.projection;
      p.turn(p.lon0 + dx * this.step / Math.max(0.2, Math.cos(p.lat0)), p.lat0 + dy * this.step);
    } else {
      this.centre = [this.centre[0] - dx * this.step, this.centre[1] + dy * this.step];
    }
    this.draw(true);
    this.read();
  }

  zoomBy(factor, at) {
    const before = at && this.plane(...at);
    this.zoom = Math.max(0.8, Math.min(400, this.zoom * factor));
    if (at && !(this.projection instanceof Globe)) {
      const after = this.plane(...at);
      this.centre = [this.centre[0] + before[0] - after[0], this.centre[1] + before[1] - after[1]];
    }
    this.draw(true);
    this.read();
  }

  home() { this.reset(); this.draw(); this.read(); }

  listen() {
    const c = this.canvas;
    const where = e => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    c.addEventListener("pointerdown", e => { c.setPointerCapture(e.pointerId); this.pointers.set(e.pointerId, where(e)); });
    c.addEventListener("pointermove", e => this.move(e.pointerId, where(e)));
    for (const end of ["pointerup", "pointercancel"]) c.addEventListener(end, e => this.pointers.delete(e.pointerId));
    c.addEventListener("pointerleave", () => { this.cursor = null; this.read(); });
    c.addEventListener("wheel", e => { e.preventDefault(); this.zoomBy(Math.exp(-e.deltaY * 0.0015), where(e)); }, { passive: false });
    c.addEventListener("dblclick", e => this.zoomBy(2, where(e)));
    c.addEventListener("keydown", e => this.key(e));
    c.addEventListener("focus", () => this.draw());
    c.addEventListener("blur", () => this.draw());
  }

  move(id, at) {
    const last = this.pointers.get(id);
    if (last && this.pointers.size === 2) {
      const other = [...this.pointers].find(([key]) => key !== id)[1];
      const apart = p => Math.hypot(p[0] - other[0], p[1] - other[1]);
      this.zoomBy(apart(at) / Math.max(1, apart(last)), [(at[0] + other[0]) / 2, (at[1] + other[1]) / 2]);
    } else if (last) {
      this.pan(at[0] - last[0], at[1] - last[1]);
    }
    if (last) this.pointers.set(id, at);
    this.cursor = at;
    this.read();
  }

  key(e) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (steps) {
      const { clientWidth: w, clientHeight: h } = this.canvas;
      if (e.shiftKey) {
        this.pan(-60 * steps[0], -60 * steps[1]);
      } else {
        const [x, y] = this.cursor ?? [w / 2, h / 2];
        this.cursor = [Math.max(0, Math.min(w, x + 6 * steps[0])), Math.max(0, Math.min(h, y + 6 * steps[1]))];
        this.draw();
        this.read();
      }
    } else if (e.key === "+" || e.key === "=") this.zoomBy(1.4, this.cursor);
    else if (e.key === "-") this.zoomBy(1 / 1.4, this.cursor);
    else if (e.key === "0") this.home();
    else return;
    e.preventDefault();
  }
}
