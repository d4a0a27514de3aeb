// Page of the reproduced figures: published numbers next to ours.

const VERSIONS = ["unthreaded allreduce", "unthreaded allgather", "threaded allreduce", "threaded allgather"];

const short = v => v < 0 ? figure(v, 3) : v >= 1000 ? whole(Math.round(v)) : figure(v, 3);

function compared(rows) {
  const low = r => r.published[0];
  const high = r => r.published.at(-1);
  const told = r => `${r.bound ? r.bound + " " : ""}${low(r) === high(r) ? short(low(r)) : `${short(low(r))} – ${short(high(r))}`}`;
  const groups = [...new Set(rows.map(r => r.what))].map(what => rows.filter(r => r.what === what));
  const kind = r => r.kind === "predicted" ? r.kind : el("span", { class: "badge warn" }, r.kind);
  const numbers = r => [told(r), short(r.ours) + (r.error ? ` ± ${short(r.error)}` : ""), kind(r), r.section];
  const head = ["published", "ours", "ours is", "section"];
  const why = list => [...new Set(list.map(r => r.why))].map(text => el("p", { class: "faint why" }, `${capital(text)}.`));
  const kinds = ["", ...head.map(() => "num")];
  if (groups.every(group => group.length === 1)) return [table(["", ...head], rows.map(r => [r.what, ...numbers(r)]), kinds), why(rows)];
  return el("div", { class: "pair groups" }, groups.map(group => el("div", {}, el("h3", {}, group[0].what),
    table(["", ...head], group.map(r => [r.machine, ...numbers(r)]), kinds), why(group))));
}

const ofFigure = (data, n) => data.comparisons.filter(r => r.figure === n);

function overlaps(data) {
  const curves = data.overlaps.map((o, i) => ({ name: `${whole(o.ranks)} ranks, ${whole(o.keys)} pixels in rank 0`, points: o.points, colour: i, dotsOnly: true }));
  const spread = data.spreads;
  return section("figure2", "Figure 2: overlaps",
    el("div", { class: "pair" },
      el("div", {}, el("h3", {}, "Pixels that rank 0 shares with each other rank, four detectors"),
        curveChart({ curves, xName: "rank", yName: "pixels shared", label: "Pixels that rank 0 shares with each other rank, falling with its distance." })),
      el("div", {}, el("h3", {}, "All detectors, a rank a core"),
        curveChart({ curves: [
          { name: "n_all / N_p", points: spread.map(s => [s.cores, s.all_over_map.value]), colour: 0 },
          { name: "overlaps of a rank / its pixels", points: spread.map(s => [s.cores, s.sum_over_keys]), colour: 1 }],
        ticks: spread.map(s => s.cores).filter((_, i) => i % 2 === 0), xName: "ranks", yName: "times", label: "Pixels of all ranks over those of the map, and overlaps, growing with ranks." }))),
    compared(ofFigure(data, 2)));
}

function setUp(data) {
  const m = data.measured;
  const curve = (name, colour) => ({ name, colour, points: data.set_ups.map(s => [s.cores, s[name]]) });
  return section("figure3", "Figure 3: the set-up",
    el("div", { class: "uneven" },
      el("div", {}, el("h3", {}, "Measured here"),
        table(null, Object.entries(m.steps).map(([name, s]) => [name, seconds(s)]), ["", "num"]),
        el("p", { class: "faint why" }, `The slowest of ${m.ranks} rank${m.ranks > 1 ? "s" : ""}, which play the first of ${whole(m.of)}, ${whole(Math.round(m.keys))} keys each: ${figure(1e9 * m.sift_time, 3)} ns a key gathered, ${figure(1e9 * m.initialise_time, 3)} ns a key shared.`)),
      el("div", {}, el("h3", {}, "Franklin, unthreaded"),
        curveChart({ curves: ["allgather", "sift", "initialise"].map(curve), ticks: data.set_ups.map(s => s.cores).filter((_, i) => i % 2 === 0), xName: "cores", yName: "seconds", label: "Seconds of the steps of the set-up." }),
        el("p", { class: "faint why" }, "The gathering by the model, log₂(p) n_l / n_b α + p n_l β; the work at the times measured here. The text publishes the steps as a plot only."))));
}

function costs(data) {
  const charts = Object.entries(data.costs).map(([machine, versions]) => el("div", {}, el("h3", {}, capital(machine)),
    curveChart({
      curves: VERSIONS.map((v, i) => ({ name: v, colour: i % 2, dash: i < 2 ? 0 : 1, points: versions[v].map(c => [c.cores, c.cores * (data.iterations * c.reduction + c.set_up)]) })),
      ticks: versions[VERSIONS[0]].map(c => c.cores).filter((_, i) => i % 2 === 0), xName: "cores", yName: "core-seconds", label: `Core-seconds of communication on ${machine}.`,
    })));
  return section("figure4", "Figure 4: communication",
    el("p", { class: "faint" }, `Core-seconds of ${data.iterations} sums and of the set-up, by the model. "Allgather" is the pairwise sum, named after its set-up. The plots of the source were not read off; the ratios in its text stand below.`),
    el("div", { class: "pair" }, charts), compared(ofFigure(data, 4)));
}

function fits(data) {
  const fitted = Object.entries(data.fitted);
  return section("figure5", "Figure 5: constants of the model",
    compared(ofFigure(data, 5)),
    el("h3", {}, "Fitted to timings"),
    fitted.length ? table(["collective", "α", "1 / β"], fitted.map(([name, f]) => [name, seconds(f.alpha), f.bytes_a_second ? `${bytes(f.bytes_a_second)}/s` : "no limit seen"]), ["", "num", "num"])
      : el("p", { class: "faint" }, "No timings: give --timings FILE, or start with mpiexec."));
}

function speedUps(data) {
  const rows = ofFigure(data, 6);
  const bars = what => pairBars(rows.filter(r => r.what === what).map(r => ({ name: r.machine, published: r.published[0], ours: r.ours })));
  const ways = Object.entries(data.ways).flatMap(([machine, kinds]) => Object.entries(kinds).map(([kind, s]) => [`${machine}, ${kind}`, ...Object.values(s).map(seconds)]));
  const names = Object.keys(Object.values(data.ways)[0].unthreaded);
  return section("figure6", "Figure 6: speed-ups",
    el("p", { class: "faint" }, "Published above, ours below; bars are logarithmic. The model stands beside what was measured: it is no derivation of it."),
    el("div", { class: "pair" },
      el("div", {}, el("h3", {}, "Communication, predicted"), bars("communication speed-up, set-up amortised")),
      el("div", {}, el("h3", {}, "Overall, from the published value"), bars("overall speed-up, set-up amortised"))),
    compared(rows),
    el("h3", {}, "One sum at the most cores, by algorithm"),
    table(["", ...names], ways, ["", ...names.map(() => "num")]));
}

const among = data => section("among", "The published numbers among themselves",
  el("ul", {}, data.inconsistencies.map(text => el("li", {}, text))));

function build() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const top = el("section", { id: "top", "aria-labelledby": "title" },
    el("h1", { id: "title" }, "The figures of Sudarsan et al. 2011, made again"),
    el("p", { class: "faint" }, `${data.source}. ${figure(100 * data.sky_fraction, 2)} % of the sky sampled; Figure 2 from all pixels of rank 0.`),
    el("p", {}, `${data.summary}.`));
  assemble([top, overlaps(data), setUp(data), costs(data), fits(data), speedUps(data), among(data)], "petamap plan paper");
}

build();
