// Sections of a Monte Carlo: bandpowers with bands, tests, transfer function, histograms, convergence.

const BETWEEN = (a, b, x) => a + (b - a) * x;

// A number beside an axis, where there is little room: 2×10⁷, not 2.00×10⁷.
const tick = v => figure(v, 3).replace(/\.?0+×/, "×");

// Frame with linear axes: ranges x = [from, to] and y = [from, to], drawn between `top` and `bottom`.
function frameOf({ x, y, top = 14, bottom = 254, height = 300, xName, yName, label, yCount = 4 }) {
  const [W, L, R] = [innerWidth < 520 ? 380 : 560, 78, 14];
  const svg = el("svg:svg", { viewBox: `0 0 ${W} ${height}`, class: "chart", role: "img", "aria-label": label });
  const text = (px, py, words, anchor, extra = {}) => svg.append(el("svg:text", { x: px, y: py, "text-anchor": anchor, ...extra }, words));
  const sx = v => BETWEEN(L, W - R, (v - x[0]) / (x[1] - x[0]));
  const scale = (range, t, b) => v => BETWEEN(b, t, (Math.min(range[1], Math.max(range[0], v)) - range[0]) / (range[1] - range[0]));
  const axis = (range, t, b, name, count) => {
    const sy = scale(range, t, b);
    for (const v of niceSteps(range[0], range[1], count)) {
      svg.append(el("svg:line", { x1: L, x2: W - R, y1: sy(v), y2: sy(v), class: "rule" }));
      text(L - 8, sy(v) + 4, tick(v), "end");
    }
    text(0, 0, name, "middle", { class: "axis", transform: `translate(14 ${(t + b) / 2}) rotate(-90)` });
    return sy;
  };
  const sy = axis(y, top, bottom, yName, yCount);
  for (const v of niceSteps(x[0], x[1], 6)) text(sx(v), height - 28, tick(v), "middle");
  text((L + W - R) / 2, height - 6, xName, "middle", { class: "axis" });
  const add = (tag, attributes, title) => svg.append(el(`svg:${tag}`, attributes, title && el("svg:title", {}, title)));
  return { svg, sx, sy, axis, add };
}

const path = points => points.map(([x, y]) => `${x},${y}`).join(" ");

// Range of the ordinate: line, means and the middle of the bands; poorly determined bins are ignored.
function rangeOf(s) {
  const line = s.line ? s.line.value : [];
  const known = [...s.value, ...(s.expected ?? []), ...line.slice(0, 2000)].filter(Number.isFinite);
  const errors = (s.error ?? []).filter(e => e !== null).sort((a, b) => a - b);
  const band = errors.length ? 2.5 * errors[Math.floor(0.7 * errors.length)] : 0;
  const middle = (s.expected ?? s.value).reduce((sum, v) => sum + v, 0) / s.value.length;
  const low = Math.min(...known, middle - band);
  const high = Math.max(...known, middle + band);
  const room = 0.05 * (high - low || 1);
  return [low - room, high + room];
}

function bandChart(s, power, unit, n) {
  const [first, last] = [s.first[0], s.last.at(-1)];
  const pulls = s.pull?.every(v => v !== null) ? s.pull : null;
  const height = pulls ? 370 : 300;
  const chart = frameOf({ x: [Math.min(first, 2), last + 1], y: rangeOf(s), height, bottom: 240, xName: "multipole", yName: `${power === "D_l" ? "D" : "C"} [${pretty(unit).replace("u", "µ")}]`,
    label: `${s.name} bandpowers: mean of ${n} realizations, their scatter, and what went in.` });
  const { sx, sy, add } = chart;
  s.first.forEach((from, b) => {
    if (s.error?.[b] == null) return;
    for (const k of [2, 1]) {
      const centre = s.expected ? s.expected[b] : s.value[b];
      const [top, bottom] = [sy(centre + k * s.error[b]), sy(centre - k * s.error[b])];
      add("rect", { x: sx(from), width: sx(s.last[b] + 1) - sx(from), y: top, height: Math.max(bottom - top, 1), class: `band k${k}` }, `${from}–${s.last[b]}: ${k} σ of a realization, ${figure(k * s.error[b], 3)}`);
    }
  });
  if (s.line) add("polyline", { points: path(s.line.l.map((l, i) => [sx(l), sy(s.line.value[i])])), class: "line c1" });
  s.value.forEach((value, b) => {
    const mean = s.error?.[b] == null ? 0 : s.error[b] / Math.sqrt(n);
    add("line", { x1: sx(s.middle[b]), x2: sx(s.middle[b]), y1: sy(value - mean), y2: sy(value + mean), class: "whisker" });
    add("circle", { cx: sx(s.middle[b]), cy: sy(value), r: 3.2, class: "dot" }, `${s.first[b]}–${s.last[b]}: ${figure(value, 4)} ± ${figure(mean, 2)}`);
  });
  if (pulls) strip(chart, s, pulls);
  return el("div", {}, el("h3", {}, s.name), el("figure", { class: "plot" }, chart.svg));
}

// Below: deviation of the mean in units of its standard error.
function strip({ sx, axis, add }, s, pulls) {
  const most = Math.max(4, ...pulls.map(v => Math.ceil(Math.abs(v))));
  const sy = axis([-most, most], 262, 336, "off [σ]", 4);
  for (const at of [-3, 3]) add("line", { x1: sx(s.first[0]), x2: sx(s.last.at(-1) + 1), y1: sy(at), y2: sy(at), class: "level" });
  pulls.forEach((v, b) => add("line", { x1: sx(s.middle[b]), x2: sx(s.middle[b]), y1: sy(0), y2: sy(v), class: "stem" }, `${figure(v, 3)} standard errors`));
  pulls.forEach((v, b) => add("circle", { cx: sx(s.middle[b]), cy: sy(v), r: 2.6, class: "dot" }, `${s.first[b]}–${s.last[b]}: ${figure(v, 3)} standard errors`));
}

function bandpowersOf(m) {
  const { power, unit, spectra } = m.bandpowers;
  const said = [`Means of ${whole(m.n)} realizations (points, with standard errors) and the scatter of one (bands of 1 and 2 σ) around what went in (line), ${power === "D_l" ? "D = l (l + 1) C / 2π" : "C"}.`,
    m.noise ? "The noise bias is taken off." : "No noise bias is known, and none is taken off.",
    m.divided && "The transfer function is divided out.", m.narrow && `Beware: ${m.narrow}.`].filter(Boolean).join(" ");
  return section("bandpowers", "Bandpowers", el("p", { class: "faint" }, said),
    el("div", { class: "pair" }, spectra.map(s => bandChart(s, power, unit, m.n))));
}

const LEAST = 0.01;
const verdict = p => p === null ? "–" : el("span", { class: `badge ${p >= LEAST ? "good" : "bad"}` }, `${p >= LEAST ? "✓" : "✗"} ${figure(p, 2)}`);

function testsOf(m) {
  if (!m.tests.length) return section("tests", "Comparison with the input", el("p", { class: "faint" }, "What the skies were drawn with is not known."));
  const rows = m.tests.map(t => [t.name === "all" ? "all together" : t.null ? `${t.name}, must be nothing` : t.name, whole(t.bins), t.worst === null ? "–" : `${figure(t.worst, 3)} σ`,
    t.chance === null ? "–" : `${figure(100 * t.chance, 2)}%`, t.chi_squared === null ? "–" : figure(t.chi_squared, 4), verdict(t.probability), verdict(t.uniform)]);
  return section("tests", "Comparison with the input",
    table(["", "Bins", "Worst mean", "Chance of 3 σ", "χ² of means", "p", "p of uniform p"], rows, ["", "num", "num", "num", "num", "num", "num"]),
    el("p", { class: "faint why" }, "Means are held against those of the skies drawn; the worst of many bins lies beyond 3 σ by the chance given even if all is well. Probabilities allow for a covariance that is itself from these realizations (Hotelling; Sellentin & Heavens). The last column: each realization against the input with the covariance of all others has a p, and these are uniform if the errors are right (Kolmogorov–Smirnov). – where there are too few realizations for so many bins."));
}

// bars: heights; level: expected height.
function histogram({ counts, from, to, xName, level, label, tell }) {
  const most = Math.max(...counts, (level ?? 0) + 2 * Math.sqrt(level ?? 0));
  const { svg, sx, sy, add } = frameOf({ x: [from, to], y: [0, 1.08 * most], xName, yName: "realizations", label });
  const width = (to - from) / counts.length;
  counts.forEach((count, i) => add("rect", { x: sx(from + i * width) + 0.7, width: Math.max(sx(width) - sx(0) - 1.4, 1), y: sy(count), height: sy(0) - sy(count), class: "column" }, tell(i, count)));
  if (level) {
    for (const side of [-1, 1]) add("line", { x1: sx(from), x2: sx(to), y1: sy(level + side * Math.sqrt(level)), y2: sy(level + side * Math.sqrt(level)), class: "level" });
  }
  return el("figure", { class: "plot" }, svg);
}

function histogramsOf(m) {
  const every = m.probabilities;
  const shown = every.find(p => p.name === "all") ?? every[0];
  const parts = [];
  if (shown) {
    const place = el("div", {}, probabilityBars(shown, m.n));
    const choose = el("div", { class: "chips", role: "radiogroup", "aria-label": "Spectrum" }, every.map(p => el("label", { class: "chip" },
      el("input", { type: "radio", name: "probabilities", checked: p === shown, onchange: () => place.replaceChildren(probabilityBars(p, m.n)) }), el("span", {}, p.name))));
    parts.push(el("div", {}, el("h3", {}, "Probability of χ² of each realization"), choose, place));
  }
  if (m.iterations) {
    const { first, width, counts } = m.iterations;
    parts.push(el("div", {}, el("h3", {}, "Iterations of the solver"), histogram({ counts, from: first - 0.5, to: first - 0.5 + width * counts.length, xName: "iterations",
      label: `Iterations of ${m.n} realizations, from ${first} on.`, tell: (i, count) => `${first + i * width}${width > 1 ? `–${first + (i + 1) * width - 1}` : ""} iterations: ${count}` })));
  }
  return parts.length > 0 && section("histograms", "Histograms", el("div", { class: "pair" }, parts));
}

const probabilityBars = (p, n) => histogram({ counts: p.counts, from: 0, to: 1, xName: `probability, ${p.name}`, level: n / p.counts.length,
  label: `Histogram of the probabilities of ${n} realizations; uniform with p ${figure(p.probability, 2)}.`, tell: (i, count) => `${i / p.counts.length}–${(i + 1) / p.counts.length}: ${count}` });

const MOST_TRANSFER = 5;

function transferOf(m) {
  if (!m.transfer) return null;
  // what a filter makes of E in B may be far more than B: the others could not be seen beside it
  const most = s => Math.max(...s.value), beyond = m.transfer.spectra.filter(s => most(s) > MOST_TRANSFER);
  const t = { ...m.transfer, spectra: m.transfer.spectra.filter(s => most(s) <= MOST_TRANSFER) };
  const ends = t.spectra.flatMap(s => s.value.flatMap((v, b) => [v - 2 * (s.error[b] ?? 0), v + 2 * (s.error[b] ?? 0)]));
  const far = Math.max(0.02, ...ends.map(v => Math.abs(v - 1)));
  const { svg, sx, sy, add } = frameOf({ x: [0, 1.03 * t.middle.at(-1)], y: [Math.max(0, 1 - 1.05 * far), 1 + 1.05 * far], xName: "multipole", yName: "F", label: "Transfer function with standard errors." });
  add("line", { x1: sx(0), x2: sx(1.03 * t.middle.at(-1)), y1: sy(1), y2: sy(1), class: "level" });
  t.spectra.forEach((s, i) => {
    const shift = (i - (t.spectra.length - 1) / 2) * 5;
    s.value.forEach((v, b) => {
      const error = s.error[b] ?? 0;
      add("line", { x1: sx(t.middle[b]) + shift, x2: sx(t.middle[b]) + shift, y1: sy(v - error), y2: sy(v + error), class: `line c${i}` });
      add("circle", { cx: sx(t.middle[b]) + shift, cy: sy(v), r: 3.2, class: `point c${i}` }, `${s.name}, l ${t.middle[b]}: ${figure(v, 4)} ± ${figure(error, 2)}`);
    });
  });
  return section("transfer", "Transfer function",
    el("div", { class: "uneven" }, el("div", {},
      el("p", {}, t.probability === null ? "Too few realizations to test it against 1." : [`That all ${t.bins} of its bins are 1 has p `, verdict(t.probability), `; the worst lies ${figure(t.worst, 3)} σ off.`]),
      el("p", { class: "faint" }, `What is left of the sky's spectra beside beam and pixels, ${t.over_unfiltered ? "filtered over unfiltered maps of the same skies" : "solved for in bins"}. ${beyond.map(s => `That of ${s.name}, up to ${figure(most(s), 3)}, is not drawn: what leaks into it is more than it has. `).join("")}${m.divided ? "It is divided out of the bandpowers." : t.probability !== null && t.probability < LEAST ? "It is not divided out of the bandpowers shown here: what it lacks, they lack. Taking monopole and dipole off behind a mask is one cause; petamap spectra --transfer divides it out." : "It is not divided out of the bandpowers shown here."}`)),
    el("figure", { class: "plot" }, svg, legend(t.spectra.map((s, i) => ({ name: s.name, colour: i }))))));
}

function covarianceOf(m) {
  const c = m.convergence;
  if (!c) return null;
  const percent = v => `${figure(100 * v, 3)}%`;
  const rows = [["Bandpowers", whole(c.bins)], ["Realizations", whole(m.n)], ["Error of a variance, √(2 / (n − 1))", percent(c.error)],
    ["Halves differ by (rms)", percent(c.halves)], ["as Gaussian ones would", percent(c.expected_halves)], ["Factor of the inverse (Hartlap)", c.hartlap > 0 ? figure(c.hartlap, 3) : "no inverse"]];
  return section("covariance", "Covariance",
    el("div", { class: "uneven" }, table(null, rows, ["", "num"]),
      el("div", {}, el("h3", {}, "From the first realizations against all"),
        curveChart({ curves: [
          { name: "variances, rms of ratio − 1", points: c.variances, colour: 0 }, { name: "as Gaussian ones would", points: c.expected, colour: 0, dash: 1 },
          { name: "correlations, rms difference", points: c.correlations, colour: 1 }],
        ticks: [4, 10, 30, 100, 300, 1000, 3000, 10000].filter(n => n < m.n), xName: "realizations", yName: "rms", label: "The covariance approaches that of all realizations." }))));
}

// Figures of the Monte Carlo, and its failures.
function summed(m) {
  const tests = m.tests.flatMap(t => [t.probability, t.uniform]).filter(p => p !== null);
  const bad = tests.filter(p => p < LEAST).length;
  const all = m.tests.find(t => t.name === "all");
  const tile = (value, name, note) => el("div", { class: "tile" }, el("strong", {}, value), el("span", {}, name), note && el("small", {}, note));
  return section("montecarlo", "Monte Carlo",
    el("p", { class: "badges" },
      tests.length > 0 && el("span", { class: `badge ${bad ? "bad" : "good"}` }, bad ? `✗ ${bad} of ${tests.length} tests have p below ${LEAST}` : `✓ all of ${tests.length} tests have p of at least ${LEAST}`),
      m.left > 0 && el("span", { class: "badge warn" }, `⚠ ${whole(m.left)} realizations not made yet`)),
    m.failed.length > 0 && el("div", { class: "alert", role: "alert" }, el("strong", {}, `${whole(m.failed.length)} realization${m.failed.length > 1 ? "s" : ""} failed`),
      el("ul", {}, m.failed.slice(0, 10).map(([number, why]) => el("li", {}, `${number}: ${why}`)))),
    el("div", { class: "tiles" },
      tile(whole(m.n), "realizations", `${whole(m.first)} to ${whole(m.last)}`),
      all && tile(whole(all.bins), "bandpowers", `of ${m.bandpowers.spectra.length} spectra`),
      all && all.worst !== null && tile(`${figure(all.worst, 3)} σ`, "worst mean", `beyond 3 σ by chance: ${figure(100 * all.chance, 2)}%`),
      m.convergence && tile(`${figure(100 * m.convergence.error, 3)}%`, "error of a variance")));
}

const withoutBandpowers = m => section("montecarlo", "Monte Carlo",
  el("div", { class: "alert", role: "alert" }, el("strong", {}, `${whole(m.n)} realizations have no bandpowers`), el("p", {}, m.untold)));

const sectionsOfMonteCarlo = m => m.untold ? [withoutBandpowers(m)] : [summed(m), bandpowersOf(m), testsOf(m), transferOf(m), histogramsOf(m), covarianceOf(m)].filter(Boolean);
