// Report of a run: sections made from its summary.

function opening(s) {
  const failed = s.comparisons.filter(c => !c.passed).length;
  const badge = (good, yes, no) => el("span", { class: `badge ${good ? "good" : "bad"}` }, good ? `✓ ${yes}` : `✗ ${no}`);
  const total = s.phases.reduce((sum, phase) => sum + Number(phase.seconds.max), 0);
  const tile = (value, name, note) => el("div", { class: "tile" }, el("strong", {}, value), el("span", {}, name), note && el("small", {}, note));
  const t = s.totals, maps = (s.components?.length || s.bands?.length) ?? 1;
  return el("section", { id: "top", "aria-labelledby": "title" },
    el("div", { class: "headline" }, el("h1", { id: "title" }, s.title || s.name),
      el("p", { class: "badges" },
        s.solver && badge(s.solver.converged, "converged", "not converged"),
        s.comparisons.length > 0 && badge(!failed, `${s.comparisons.length} comparison${s.comparisons.length > 1 ? "s" : ""} within limits`, `${failed} of ${s.comparisons.length} comparisons outside limits`),
        s.warnings.length > 0 && el("a", { class: "badge warn", href: "#warnings" }, `⚠ ${s.warnings.length} warning${s.warnings.length > 1 ? "s" : ""}`))),
    el("p", { class: "faint" }, `run ${s.name} · ${s.run_id} · petamap ${s.petamap}`),
    s.warnings.length > 0 && el("div", { class: "alert", id: "warnings", role: "alert" }, el("strong", {}, "Warnings"),
      el("ul", {}, s.warnings.map(text => el("li", {}, text)))),
    s.solver && !s.solver.converged && el("div", { class: "alert bad", role: "alert" },
      el("strong", {}, "The solver did not converge: "), s.solver.reason),
    el("div", { class: "tiles" },
      tile(scaled(t.samples_used, "", ["", " k", " M", " G", " T"], 1000), "samples used", `${figure(100 * t.samples_used / Math.max(t.samples, 1), 3)}% of ${whole(t.samples)}`),
      tile(whole(t.detectors), t.detectors === 1 ? "detector" : "detectors", `${whole(t.observations)} observation${t.observations === 1 ? "" : "s"}`),
      tile(whole(t.pixels_observed - t.pixels_cut), "pixels mapped", `${figure(100 * (t.pixels_observed - t.pixels_cut) / t.pixels, 3)}% of ${maps > 1 ? `${maps} maps` : "the map"}; ${t.pixels_cut ? `${whole(t.pixels_cut)} seen and cut` : "none cut"}`),
      s.solver && tile(whole(s.solver.iterations), "iterations", `${s.solver.error_bound != null ? `map error at most ${ofNoise(s.solver.error_bound)}` : `relative residual ${figure(s.solver.relative_residual, 2)}`}${s.resumed > 0 ? `; resumed ${s.resumed === 1 ? "once" : `${s.resumed} times`}` : ""}`),
      tile(seconds(total), "in all phases", `${s.environment.ranks} rank${s.environment.ranks > 1 ? "s" : ""} × ${s.environment.threads} thread${s.environment.threads > 1 ? "s" : ""}`),
      tile(bytes(s.memory.peak_bytes), "peak memory of a rank", `${figure(s.memory.bytes_per_sample, 3)} bytes a sample for pointing and flags`)));
}

// An error in units of the noise, as text.
const ofNoise = v => v < 0.995 ? `${figure(100 * v, 2)}% of its noise` : `${figure(v, 3)} times its noise`;

const MEASURES = [
  { key: "relative_residual", name: "relative residual", colour: 0, dash: 0 },
  { key: "error_bound", name: "map error / noise, at most, in any mode", colour: 1, dash: 1 },
  { key: "coarse_error", name: "the same of large scales, about", colour: 2, dash: 2 },
];

function convergence(s) {
  if (!s.solver?.history.length) return null;
  const undetermined = (modes) => modes.length ? ` Not determined by the data, as templates imitate ${modes.length > 1 ? "them" : "it"}, and left at zero over all samples: ${modes.join(", ")}.` : "";
  const { history: h, tolerance, tolerance_of_noise: noise, error_bound: bound, coarse_error: coarse } = s.solver;
  const known = MEASURES.filter(m => h.some(step => step[m.key] != null));
  const asked = Number(tolerance) > 0 ? { value: Number(tolerance), name: noise ? `tolerance ${figure(100 * tolerance, 2)}% of noise` : `tolerance of the residual ${figure(tolerance, 2)}` } : null;
  const told = step => known.filter(m => step[m.key] != null).map(m => `${m.name} ${figure(step[m.key], 3)}`).join("; ");
  const chart = (key, xName, head) => lineChart({
    curves: known.map(m => ({ ...m, points: h.map(step => [Number(step[key]), step[m.key] == null ? NaN : Number(step[m.key])]) })), xName,
    yName: known.length > 1 ? "residual; map error / noise" : "relative residual", level: asked,
    describe: x => { const step = h.find(one => Number(one[key]) === x); return `${head(x)}: ${told(step)}`; },
    label: `Convergence against ${xName}. At the start: ${told(h[0])}. At the end: ${told(h.at(-1))}.`,
  });
  return section("convergence", "Convergence",
    el("p", {}, `${s.solver.converged ? "Converged" : "Not converged"} after ${s.solver.iterations} iterations: ${s.solver.reason}${s.solver.preconditioner ? `; ${s.solver.preconditioner}` : ""}.${undetermined(s.solver.undetermined ?? [])}`),
    bound != null && el("p", {}, `The error that the solver has left in the map is at most ${ofNoise(bound)} in any mode, so at every scale${coarse != null ? ` (large scales: about ${ofNoise(coarse).replace(" of its noise", "")})` : ""}.`),
    el("div", { class: "pair" }, chart("iteration", "iteration", x => `iteration ${x}`), chart("seconds", "seconds", seconds)));
}

function costs(s) {
  const row = key => phase => ({ label: phase.name, spread: phase[key], note: phase.calls > 1 ? ` ${whole(phase.calls)} calls` : "" });
  const timed = phase => ({ ...row("seconds")(phase), note: [phase.calls > 1 && ` ${whole(phase.calls)} calls`, phase.cpu_seconds && ` ${seconds(phase.cpu_seconds.mean)} of processors`].filter(Boolean).join(",") });
  const many = s.environment.ranks > 1 ? " Bars are means over the ranks; the whisker goes from the least to the greatest." : "";
  return section("cost", "Time, traffic and memory",
    many && el("p", { class: "faint" }, many),
    el("div", { class: "pair" },
      el("div", {}, el("h3", {}, "Seconds by phase"), bars(s.phases.map(timed), seconds, "time")),
      el("div", {}, el("h3", {}, "Bytes sent by a rank"), bars(s.phases.map(row("bytes")), bytes, "bytes sent between ranks"),
        el("h3", {}, "Memory of a rank"), memory(s.memory))));
}

function memory(m) {
  const alone = v => ({ min: v, mean: v, max: v });
  const off = 100 * (m.predicted_bytes / m.peak_bytes - 1);
  return [bars([{ label: "predicted", spread: alone(m.predicted_bytes) }, { label: "peak", spread: alone(m.peak_bytes) }], bytes, "memory"),
    Number.isFinite(off) && el("p", { class: "faint" }, `Predicted ${figure(Math.abs(off), 2)}% ${off < 0 ? "below" : "above"} the peak.`)];
}

function checks(s) {
  if (!s.comparisons.length) return null;
  const rows = s.comparisons.map(c => {
    const [factor, unit] = readable(c.unit, Math.abs(Number(c.limit ?? c.max_abs)));
    const f = v => v === null ? "–" : figure(v * factor, 3);
    const mark = c.limit === null ? el("span", { class: "faint" }, "no limit") : el("span", { class: `badge ${c.passed ? "good" : "bad"}` }, c.passed ? "✓ within" : "✗ outside");
    return [c.name, c.reference, f(c.max_abs), f(c.rms), f(c.limit), unit, mark];
  });
  return section("checks", "Comparisons",
    table(["Compared", "With", "Greatest", "rms", "Limit", "Unit", ""], rows, ["", "", "num", "num", "num", "", ""]));
}

function splits(s) {
  if (!s.splits.length) return null;
  const rows = s.splits.map(one => [one.name, one.by, one.parts.map(p => p.name).join(", "),
    one.null ? figure(one.null.chi_squared, 5) : "–", one.null ? whole(one.null.degrees_of_freedom) : "–", one.null ? figure(one.null.probability, 2) : "–",
    one.solver ? `${one.solver.converged ? "" : "NOT CONVERGED, "}${whole(one.solver.iterations)}` : "–"]);
  return section("splits", "Splits",
    el("p", {}, "Whether one map describes all parts of the data as well as a map for each: the difference of their chi-squared, and the probability of a larger one if the noise is as modelled."),
    table(["Split", "By", "Parts", "Chi-squared", "Degrees of freedom", "Probability", "Iterations"], rows, ["", "", "", "num", "num", "num", "num"]));
}

// how each band sees the map of each component
function bands(s) {
  if (!s.bands?.length) return null;
  const frequency = nu => nu == null ? "–" : `${figure(nu / 1e9, 4)} GHz`;
  const factors = (one, k) => one.polarization_factors.length ? `${figure(one.factors[k], 4)} (Q, U: ${figure(one.polarization_factors[k], 4)})` : figure(one.factors[k], 4);
  const rows = s.bands.map((band, k) => [band.name, frequency(band.frequency), whole(band.detectors), ...s.components.map(one => factors(one, k))]);
  const names = s.components.map(one => one.reference == null ? one.name : `${one.name} (1 at ${frequency(one.reference)})`);
  return section("bands", s.components.length ? "Bands and components" : "Bands",
    el("p", {}, s.components.length ? "The maps are of components of the sky, solved for from all bands together. A band sees the map of a component times a factor." : "Each band has a map of its own; all are solved for together."),
    table(["Band", "Frequency", "Detectors", ...names], rows, ["", "num", "num", ...names.map(() => "num")]));
}

// rms of a template's amplitudes over detectors, each in a unit of its own
function templates(all, taken) {
  if (!all?.length && !taken.length) return null;
  if (!all?.length) return section("templates", "Templates", ...modesTaken(taken));
  const rows = all.map(({ name, unit, n, detectors, rms }) => {
    const most = Math.max(...rms), least = Math.min(...rms), [factor, known] = readable(unit, most);
    const shown = v => `${figure(factor * v, 3)} ${known}`.trim();
    return [name, whole(n), whole(detectors.length), shown(Math.sqrt(rms.reduce((sum, v) => sum + v * v, 0) / rms.length)),
      `${shown(least)} (${detectors[rms.indexOf(least)]})`, `${shown(most)} (${detectors[rms.indexOf(most)]})`];
  });
  const many = all.filter(one => one.detectors.length > 1);
  return section("templates", "Templates",
    el("p", {}, "What was solved for beside the map, as rms of the amplitudes of each detector."),
    table(["Template", "Amplitudes", "Detectors", "Rms", "Least of a detector", "Greatest of a detector"], rows, ["", "num", "num", "num", "num", "num"]),
    many.length > 0 && el("div", { class: "pair" }, lineChart({
      curves: many.map((one, k) => ({ name: one.unit ? `${one.name}, ${pretty(one.unit)}` : one.name, points: one.rms.map((v, d) => [d + 1, v]), colour: k % 3, dash: Math.floor(k / 3) % 3 })),
      xName: "detector", yName: "rms of amplitudes",
      describe: x => `${many[0].detectors[x - 1] ?? ""}: ${many.filter(one => x <= one.rms.length).map(one => `${one.name} ${figure(one.rms[x - 1], 3)}`).join("; ")}`,
      label: `Rms of the amplitudes of each detector: ${rows.map(row => `${row[0]} ${row[3]}`).join("; ")}.`,
    })), ...modesTaken(taken));
}

// what templates take of the sky, by angular scale
function modesTaken(scales) {
  if (!scales.length) return [];
  const share = v => v === null ? "–" : v < 5e-4 ? "<0.1%" : `${figure(100 * v, 2)}%`;
  return [
    el("p", {}, "Part of the sky that templates imitate, by angular scale: of its square, for white noise. The map knows so much less of it."),
    table(["Multipoles", "I", "Q and U"], scales.map(one => [`${one.l_first} to ${one.l_last}`, share(one.intensity), share(one.polarization)]), ["", "num", "num"]),
  ];
}

function counts(s) {
  const t = s.totals, maps = (s.components?.length || s.bands?.length) ?? 1;
  const share = (part, of) => of > 0 ? ` (${figure(100 * part / of, 3)}%)` : "";
  const rows = [
    ["Observations", whole(t.observations)], ["Detectors", whole(t.detectors)], ["Samples", whole(t.samples)],
    ["Samples used", whole(t.samples_used) + share(t.samples_used, t.samples)],
    ["Samples flagged", whole(t.samples_flagged) + share(t.samples_flagged, t.samples)],
    ...(t.samples_unwritten ? [["Samples solved for in pixels cut", whole(t.samples_unwritten) + share(t.samples_unwritten, t.samples)]] : []),
    ["Pixels observed", whole(t.pixels_observed)], ["Pixels cut", whole(t.pixels_cut)], ["Pixels degenerate", whole(t.pixels_degenerate)],
    ...(s.noise ? [["Noise kernel", `${whole(s.noise.n_lag)} lags, FFT of ${whole(s.noise.n_fft)}`]] : []),
    ...(s.noise?.loss != null ? [
      ["Information lost by the band, at most", `${figure(100 * s.noise.loss, 2)}%`],
      ["Error of a variance by the band, at most", `${figure(100 * s.noise.misstated, 2)}%`],
    ] : []),
  ];
  const products = s.products.map(p => [capital(p.name), el("code", {}, p.file), p.stokes || "–", pretty(p.unit) || "–", el("code", { class: "hash", title: p.sha256 }, p.sha256)]);
  return section("totals", "Totals and products",
    el("div", { class: "uneven" }, table(null, rows, ["", "num"]),
      products.length > 0 && table(["Product", "File", "Stokes", "Unit", "SHA-256 of the pixels"], products)));
}

function copyable(text, name) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy the ${name}` }, "Copy");
  const pre = el("pre", { tabindex: "0" }, el("code", {}, text));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre); // a file:// page may not write to the clipboard; then Ctrl-C does
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return el("div", { class: "copyable" }, button, pre);
}

const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

function reproduce(s) {
  const e = s.environment;
  const rows = [["petamap", s.petamap], ["Python", e.python], ["NumPy", e.numpy], ["MPI", e.mpi ?? "none"], ["Processor", e.kernels ? `${e.cpu}, kernels for ${e.kernels}` : e.cpu],
    ["Ranks × threads", `${e.ranks} × ${e.threads} on ${e.hosts} host${e.hosts > 1 ? "s" : ""}${e.reduction ? `, data by ${e.distribution}, pixels by ${e.reduction}` : ""}`], ["Seed", String(s.seed)]];
  return section("reproduce", "Reproduce this",
    el("p", { class: "faint" }, "The pixels are the same bits for any number of ranks and threads; compare the SHA-256 above."),
    el("div", { class: "uneven" },
      table(null, rows),
      el("div", {}, el("h3", {}, "Command"), copyable(s.command.map(quoted).join(" "), "command"),
        el("h3", {}, "Configuration"), copyable(s.configuration, "configuration"))));
}

function build() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const s = data.summary;
  for (const c of s.comparisons) c.passed = c.limit === null || c.max_abs <= c.limit;
  const ofMonteCarlo = data.montecarlo ? sectionsOfMonteCarlo(data.montecarlo) : [];
  const made = [opening(s), ...ofMonteCarlo, sectionOfMaps(data), convergence(s), bands(s), templates(data.amplitudes, s.modes_taken ?? []), splits(s), costs(s), checks(s), counts(s), reproduce(s)].filter(Boolean);
  assemble(made, `petamap ${s.petamap} · ${s.name} · ${s.run_id}`);
}

build();
