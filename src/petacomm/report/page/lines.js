// Charts of several curves on logarithmic axes, as SVG.

const decades = (values, least = 1) => {
  const logs = values.filter(v => v > 0).map(Math.log10);
  const low = Math.floor(Math.min(...logs) + 1e-9);
  return [low, Math.max(low + least, Math.ceil(Math.max(...logs) - 1e-9))];
};

const DASHES = ["", "7 4", "2 3"];

// curves: [{ name, points: [[x, y], ...], colour, dash, dots }]; ticks: x values with a number, else powers of ten.
function curveChart({ curves, xName, yName, ticks, label }) {
  const [W, H, L, R, T, B] = [560, 330, 64, 28, 14, 48];
  const every = curves.flatMap(c => c.points).filter(([x, y]) => x > 0 && y > 0);
  if (!every.length) return el("p", { class: "faint" }, `Nothing to draw of ${yName}.`);
  const [y0, y1] = decades(every.map(p => p[1]));
  const xs = every.map(p => Math.log10(p[0]));
  const [x0, x1] = [Math.min(...xs), Math.max(...xs, Math.min(...xs) + 0.3)];
  const sx = x => L + (W - L - R) * (Math.log10(x) - x0) / (x1 - x0);
  const sy = y => T + (H - T - B) * (y1 - Math.log10(y)) / (y1 - y0);
  const svg = el("svg:svg", { viewBox: `0 0 ${W} ${H}`, class: "chart", role: "img", "aria-label": label });
  const text = (x, y, words, anchor, extra = {}) => el("svg:text", { x, y, "text-anchor": anchor, ...extra }, words);
  for (let d = y0; d <= y1; d += Math.ceil((y1 - y0) / 8)) {
    svg.append(el("svg:line", { x1: L, x2: W - R, y1: sy(10 ** d), y2: sy(10 ** d), class: "rule" }),
      text(L - 8, sy(10 ** d) + 4, `10${superscript(d)}`, "end"));
  }
  const marks = ticks ?? Array.from({ length: 12 }, (_, d) => 10 ** d).filter(x => Math.log10(x) >= x0 - 0.01 && Math.log10(x) <= x1 + 0.01);
  for (const x of marks) svg.append(text(sx(x), H - B + 18, whole(x), "middle"));
  svg.append(text((L + W - R) / 2, H - 6, xName, "middle", { class: "axis" }),
    text(0, 0, yName, "middle", { class: "axis", transform: `translate(14 ${(T + H - B) / 2}) rotate(-90)` }));
  for (const c of curves) {
    const shown = c.points.filter(([x, y]) => x > 0 && y > 0);
    if (!c.dotsOnly) svg.append(el("svg:polyline", { points: shown.map(([x, y]) => `${sx(x)},${sy(y)}`).join(" "), class: `line c${c.colour}`, "stroke-dasharray": DASHES[c.dash ?? 0] }));
    for (const [x, y] of shown) svg.append(el("svg:circle", { cx: sx(x), cy: sy(y), r: c.dotsOnly ? 1.8 : 3, class: `point c${c.colour}` },
      el("svg:title", {}, `${c.name}: ${whole(x)}, ${figure(y, 3)}`)));
  }
  return el("figure", { class: "plot" }, svg, legend(curves));
}

const legend = curves => el("figcaption", { class: "legend" }, curves.map(c => el("span", {},
  el("svg:svg", { viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true" },
    el("svg:line", { x1: 1, x2: 25, y1: 4, y2: 4, class: `line c${c.colour}`, "stroke-dasharray": DASHES[c.dash ?? 0] })), c.name)));

// Pairs of bars of published and computed values on one logarithmic scale; rows: [{ name, published, ours }].
function pairBars(rows, digits = 3) {
  const values = rows.flatMap(r => [r.published, r.ours]).filter(v => v > 0);
  const [low, high] = [Math.min(0, ...values.map(Math.log10)), Math.max(...values.map(Math.log10))];
  const width = v => `${Math.max(1, 100 * (Math.log10(v) - low) / (high - low || 1))}%`;
  const line = (kind, v) => el("div", { class: "bar" }, el("i", { class: kind, style: `width:${width(v)}` }));
  return el("table", { class: "bars" }, el("tbody", {}, rows.map(r => el("tr", {},
    el("th", { scope: "row" }, r.name),
    el("td", { "aria-hidden": "true" }, line("theirs", r.published), line("ours", r.ours)),
    el("td", { class: "num" }, figure(r.published, digits), el("small", {}, figure(r.ours, digits)))))));
}
