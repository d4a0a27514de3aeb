// Section of the maps: selection, canvas, colour bar, read-out.

function sectionOfMaps({ grids, layers }) {
  if (!layers.length) return null;
  grids.forEach(openGrid);
  const state = { layer: null, projections: new Map(), kind: new Map() };
  const readout = el("output", { class: "readout", "aria-live": "polite" });
  const about = el("p", { class: "about" });
  const canvas = el("canvas", {
    class: "map", tabindex: "0", role: "application",
    "aria-label": "Map. Arrow keys move the cursor, Shift and arrows move the map, plus and minus zoom, zero shows all.",
  });
  const viewer = new Viewer(canvas, found => showReading(readout, state.layer, grids, found));
  const bar = colourBar(() => viewer.draw(), () => state.layer);
  const kinds = projectionChooser(kind => { state.kind.set(state.layer.grid, kind); choose(state.layer); });

  function projectionOf(layer) {
    const grid = grids[layer.grid];
    const kind = state.kind.get(layer.grid) ?? (grid.kind !== "healpix" ? "flat" : Math.max(...grid.reach) < 1 ? "globe" : "mollweide");
    const key = `${layer.grid} ${kind}`;
    if (!state.projections.has(key)) {
      state.projections.set(key, kind === "flat" ? new Flat(grid, grid.box)
        : kind === "globe" ? new Globe(grid, grid.centre) : new Mollweide(grid, [0, 0]));
    }
    kinds.show(kind);
    return state.projections.get(key);
  }
  function choose(layer) {
    state.layer = openLayer(layer);
    const projection = projectionOf(layer);
    const [x0, y0, x1, y1] = projection.box;
    canvas.classList.toggle("tall", !projection.spherical && x1 - x0 < 1.4 * (y1 - y0));
    graticule.hidden = !projection.spherical;
    viewer.show(layer, grids[layer.grid], projection);
    bar.show();
    about.replaceChildren(...statistics(layer, grids[layer.grid]));
  }
  const tool = (name, title, act) => el("button", { type: "button", title, "aria-label": title, onclick: act }, name);
  const graticule = tool("#", "Switch the graticule", () => { viewer.graticule = !viewer.graticule; viewer.draw(); });
  const tools = el("div", { class: "tools" },
    tool("+", "Zoom in", () => viewer.zoomBy(1.6)), tool("−", "Zoom out", () => viewer.zoomBy(1 / 1.6)),
    tool("⤢", "Show all", () => viewer.home()), graticule);
  const made = section("maps", "Maps",
    el("div", { class: "viewer" },
      el("div", { class: "side" }, chooser(layers, choose), kinds.element),
      el("div", { class: "stage" }, el("div", { class: "frame" }, canvas, tools), readout, bar.element, about)));
  document.addEventListener("themechange", () => viewer.draw());
  choose(layers[0]);
  showReading(readout, layers[0], grids, null);
  return made;
}

// Radio buttons: a row per product, a button per component.
function chooser(layers, choose) {
  const products = new Map();
  layers.forEach((layer, i) => products.set(layer.product, [...(products.get(layer.product) ?? []), [layer, i]]));
  const button = ([layer, i]) => el("label", { class: "chip" },
    el("input", { type: "radio", name: "layer", checked: i === 0, onchange: () => choose(layer) }),
    el("span", {}, layer.component || "show"));
  return el("fieldset", { class: "chooser" }, el("legend", {}, "Map"),
    [...products].map(([name, list]) => el("div", { class: "product", role: "group", "aria-label": name },
      el("span", { class: "name" }, capital(name)), el("span", { class: "chips" }, list.map(button)))));
}

function projectionChooser(choose) {
  const inputs = {};
  const chip = (kind, name) => el("label", { class: "chip" },
    inputs[kind] = el("input", { type: "radio", name: "projection", onchange: () => choose(kind) }), el("span", {}, name));
  const element = el("fieldset", { class: "chooser" }, el("legend", {}, "Projection"),
    el("span", { class: "chips" }, chip("mollweide", "All sky"), chip("globe", "Globe")));
  const show = kind => {
    element.hidden = kind === "flat";
    if (inputs[kind]) inputs[kind].checked = true;
  };
  return { element, show };
}

function statistics(layer, grid) {
  const f = v => figure(v * layer.factor);
  const facts = [["pixels", whole(layer.seen)], ["least", f(layer.min)], ["mean", f(layer.mean)], ["greatest", f(layer.max)], ["rms", f(layer.rms)]];
  const note = grid.note && el("span", { class: "faint" }, grid.note);
  return [...facts.map(([name, value]) => el("span", { class: "fact" }, el("i", {}, name), ` ${value}`)), note].filter(Boolean);
}

const COORDINATES = { galactic: ["l", "b"], equatorial: ["RA", "Dec"], ecliptic: ["λ", "β"], sky: ["lon", "lat"] };

function showReading(output, layer, grids, found) {
  if (!found) {
    output.replaceChildren(el("span", { class: "faint" }, "Point at the map, or focus it and use the arrow keys."));
    return;
  }
  const grid = grids[layer.grid];
  const [lon, lat] = COORDINATES[grid.coordinates] ?? COORDINATES.sky;
  const value = Number.isNaN(found.value) ? "no value" : `${figure(found.value * layer.factor, 5)} ${layer.readable}`;
  const degrees = (v, places = 3) => `${(v / DEG).toFixed(places).replace("-", "−")}°`;
  const part = (name, text) => el("span", { class: "fact" }, el("i", {}, name), ` ${text}`);
  output.replaceChildren(...[
    el("strong", {}, value),
    found.sky && part(lon, degrees(found.sky[0])), found.sky && part(lat, degrees(found.sky[1])),
    found.cell ? part("pixel", `${found.cell[0]}, ${found.cell[1]}`) : part("pixel", found.pixel),
  ].filter(Boolean));
}

// Colour bar with histogram: drag its ends, or type the numbers.
function colourBar(redraw, current) {
  const histogram = el("canvas", { class: "histogram", "aria-hidden": "true" });
  const strip = el("div", { class: "strip" });
  const end = name => el("input", { type: "number", step: "any", "aria-label": `${name} end of the colour range`, onchange: typed });
  const [low, high] = [end("Lower"), end("Upper")];
  const unit = el("span", { class: "unit" });
  const palette = el("select", { "aria-label": "Colour map", onchange: () => { current().palette = palette.value; show(); redraw(); } },
    Object.entries(PALETTE_NAMES).map(([value, name]) => el("option", { value }, name)));
  const set = (a, b) => { if (a < b) { current().low = a; current().high = b; show(); redraw(); } };
  const fit = el("button", { type: "button", onclick: () => { resetRange(current()); show(); redraw(); } }, "Auto");
  const full = el("button", { type: "button", onclick: () => set(current().min, current().max) }, "Full");

  function typed() { set(Number(low.value) / current().factor, Number(high.value) / current().factor); show(); }
  function show() {
    const layer = current();
    strip.style.background = gradient(layer.palette);
    low.value = Number((layer.low * layer.factor).toPrecision(4));
    high.value = Number((layer.high * layer.factor).toPrecision(4));
    unit.textContent = layer.readable;
    palette.value = layer.palette;
    requestAnimationFrame(() => drawHistogram(histogram, layer));
  }
  dragEnds(strip, current, set);
  const element = el("div", { class: "colours" }, histogram, strip,
    el("div", { class: "range" }, low, el("span", { class: "middle" }, unit, palette, fit, full), high));
  document.addEventListener("themechange", () => drawHistogram(histogram, current()));
  return { element, show };
}

// Dragging in the left half of the bar moves the lower end, in the right half the upper.
function dragEnds(strip, current, set) {
  let from = null;
  strip.addEventListener("pointerdown", e => {
    strip.setPointerCapture(e.pointerId);
    const box = strip.getBoundingClientRect();
    from = { x: e.clientX, left: e.clientX < box.left + box.width / 2, width: box.width, low: current().low, high: current().high };
  });
  strip.addEventListener("pointermove", e => {
    if (!from) return;
    const moved = (e.clientX - from.x) / from.width * (from.high - from.low);
    set(from.low - (from.left ? moved : 0), from.high - (from.left ? 0 : moved));
  });
  for (const end of ["pointerup", "pointercancel"]) strip.addEventListener(end, () => { from = null; });
}

function drawHistogram(canvas, layer) {
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  if (!w) return;
  const bins = new Float64Array(Math.max(8, Math.floor(w / 4)));
  for (const v of layer.values) {
    const i = Math.floor((v - layer.low) / (layer.high - layer.low) * bins.length);
    if (i >= 0 && i < bins.length) bins[i]++;
  }
  const most = Math.max(...bins) || 1;
  canvas.width = w * 2;
  canvas.height = h * 2;
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(canvas).getPropertyValue("--histogram");
  bins.forEach((n, i) => {
    const tall = Math.sqrt(n / most) * canvas.height;
    context.fillRect(i * canvas.width / bins.length, canvas.height - tall, canvas.width / bins.length - 2, tall);
  });
}
