// Line charts with a logarithmic ordinate, and bars, as SVG and plain elements.

function niceSteps(low, high, count) {
  const raw = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(f => f * power >= raw);
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) out.push(Number(v.toPrecision(12)));
  return out;
}

// curves: [{ name, points: [[x, y], ...], colour, dash }], of which points with y > 0 are drawn, and the first is told
// where the pointer is, by describe(x); level: a horizontal line with its name.
function lineChart({ curves, xName, yName, level, describe, label }) {
  const [W, H, L, R, T, B] = [innerWidth < 520 ? 380 : 560, 300, 62, 14, 14, 46];
  const drawn = curves.map(c => ({ ...c, points: c.points.filter(([, y]) => Number.isFinite(y) && y > 0) })).filter(c => c.points.length);
  if (!drawn.length) return el("p", { class: "faint" }, `No ${yName} above 0 to draw against ${xName}.`);
  const first = drawn[0].points;
  const logs = drawn.flatMap(c => c.points.map(p => Math.log10(p[1]))).concat(level ? [Math.log10(level.value)] : []);
  const y0 = Math.floor(Math.min(...logs));
  const y1 = Math.max(y0 + 1, Math.ceil(Math.max(...logs)));
  const x1 = Math.max(...curves.flatMap(c => c.points.map(p => p[0]))) || 1;
  const sx = x => L + (W - L - R) * x / x1;
  const sy = y => T + (H - T - B) * (y1 - Math.log10(y)) / (y1 - y0);
  const svg = el("svg:svg", { viewBox: `0 0 ${W} ${H}`, class: "chart", role: "img", "aria-label": label });
  const text = (x, y, words, anchor, extra = {}) => el("svg:text", { x, y, "text-anchor": anchor, ...extra }, words);
  const every = Math.ceil((y1 - y0) / 7);
  for (let d = y0; d <= y1; d += every) {
    svg.append(el("svg:line", { x1: L, x2: W - R, y1: sy(10 ** d), y2: sy(10 ** d), class: "rule" }),
      text(L - 8, sy(10 ** d) + 4, `10${superscript(d)}`, "end"));
  }
  for (const x of niceSteps(0, x1, W / 90)) svg.append(text(sx(x), H - B + 18, figure(x, 3), "middle"));
  svg.append(text((L + W - R) / 2, H - 6, xName, "middle", { class: "axis" }),
    text(0, 0, yName, "middle", { class: "axis", transform: `translate(13 ${(T + H - B) / 2}) rotate(-90)` }));
  if (level) {
    svg.append(el("svg:line", { x1: L, x2: W - R, y1: sy(level.value), y2: sy(level.value), class: "level" }),
      text((L + W - R) / 2, sy(level.value) - 6, level.name, "middle", { class: "levelname" }));
  }
  for (const { points, colour, dash } of drawn) {
    svg.append(el("svg:polyline", { points: points.map(([x, y]) => `${sx(x)},${sy(y)}`).join(" "), class: `line c${colour}`, "stroke-dasharray": DASHES[dash] }));
    if (points.length <= 80) points.forEach(([x, y]) => svg.append(el("svg:circle", { cx: sx(x), cy: sy(y), r: 2.4, class: `point c${colour}` })));
  }
  const mark = el("svg:circle", { r: 5, class: "mark", visibility: "hidden" });
  const says = el("figcaption", { class: "says", "aria-live": "polite" }, "\u00a0");
  svg.append(mark);
  svg.addEventListener("pointermove", e => {
    const box = svg.getBoundingClientRect();
    const x = (e.clientX - box.left) / box.width * W;
    const near = first.reduce((best, p, i) => Math.abs(sx(p[0]) - x) < Math.abs(sx(first[best][0]) - x) ? i : best, 0);
    const [px, py] = first[near];
    for (const [k, v] of [["cx", sx(px)], ["cy", sy(py)], ["visibility", "visible"]]) mark.setAttribute(k, v);
    says.textContent = describe(px);
  });
  svg.addEventListener("pointerleave", () => { mark.setAttribute("visibility", "hidden"); says.textContent = "\u00a0"; });
  return el("figure", { class: "plot" }, svg, drawn.length > 1 && legend(drawn), says);
}

// A bar per row up to the mean, with a whisker from the minimum to the maximum over the ranks.
function bars(rows, format, name) {
  const most = Math.max(...rows.map(row => Number(row.spread.max)), 0);
  if (!(most > 0)) return el("p", { class: "faint" }, `No ${name}.`);
  const percent = v => `${100 * v / most}%`;
  const body = rows.map(({ label, spread, note }) => {
    const { min, mean, max } = spread;
    const uneven = max > min;
    return el("tr", {},
      el("th", { scope: "row" }, label, note && el("small", {}, note)),
      el("td", { class: "barcell", "aria-hidden": "true" }, el("div", { class: "bar" },
        el("i", { style: `width:${percent(mean)}` }),
        uneven && el("b", { style: `left:${percent(min)};width:${percent(max - min)}` }))),
      el("td", { class: "num" }, format(mean), uneven && el("small", {}, `${format(min)} – ${format(max)}`)));
  });
  return el("table", { class: "bars" },
    el("caption", { class: "hidden" }, `${name}: mean over the ranks, and least to greatest`), el("tbody", {}, body));
}
