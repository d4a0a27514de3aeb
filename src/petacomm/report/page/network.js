// Page of the reproduced tables: published and computed values.

const short = v => v === null ? "–" : v >= 1000 ? whole(Math.round(v)) : figure(v, 3);
const verdict = c => c.inside === null ? c.role : `${c.role}, ${c.inside ? "inside" : "outside"}`;
const colour = c => c.role !== "predicted" ? "warn" : c.inside ? "good" : "bad";
const marked = c => el("span", { class: `badge ${colour(c)}` }, verdict(c));

function cellTable(cells) {
  const rows = cells.map(c => [el("span", { style: "white-space: nowrap" }, `${c.row}, ${c.column}`), short(c.published), short(c.ours), c.unit,
    c.ours === null ? "–" : figure(c.ours / c.published, 3), marked(c), c.tolerance, c.how]);
  return table(["", "printed", "ours", "", "ratio", "", "tolerance", "how"], rows, ["", "num", "num", "", "num", "", "", ""]);
}

function reasons(cells) {
  const texts = [...new Set(cells.map(c => c.why).filter(Boolean))];
  return texts.map(text => el("p", { class: "faint why" },
    `${capital(cells.filter(c => c.why === text).map(c => `${c.row}, ${c.column}`).join("; "))}: ${text}.`));
}

const bars = cells => pairBars(cells.filter(c => c.ours !== null).map(c => ({ name: `${c.row}, ${c.column}`, published: c.published, ours: c.ours })));

function allToAll(data) {
  const cells = data.cells.filter(c => c.table === 2);
  const charts = Object.keys(data.printed).map(shape => el("div", {}, el("h3", {}, shape), curveChart({
    curves: [
      { name: "printed", points: data.printed[shape], colour: 0 },
      { name: "simulated", points: data.curves[shape], colour: 1, dash: 1 },
      { name: "peak", points: [[data.printed[shape][0][0], peak(cells, shape)], [data.printed[shape].at(-1)[0], peak(cells, shape)]], colour: 2, dash: 2 }],
    ticks: [16, 256, 4096, 65536].filter(x => x <= data.printed[shape].at(-1)[0]),
    xName: "bytes of a message", yName: "MB/s, all nodes", label: `Bandwidth of the all-to-all on ${shape}, growing with messages up to the peak.`,
  })));
  return section("table2", "Table 2: all-to-all",
    el("p", { class: "faint" }, "Randomized all-to-all, packet by packet; shapes from 8x8x8 up are tori, the others meshes. Bandwidth counts the messages that cross the network. Sizes that would take too long continue at the rate of a slice of long messages, as the table says."),
    el("div", { class: "pair" }, charts), cellTable(cells), reasons(cells));
}

const peak = (cells, shape) => cells.find(c => c.row === shape && c.column === "peak").ours;

function ofTable(data, number, title, faint) {
  const cells = data.cells.filter(c => c.table === number);
  return section(`table${number}`, title, el("p", { class: "faint" }, faint),
    bars(cells.filter(c => c.unit === cells[0].unit)), cellTable(cells), reasons(cells));
}

function orders(data) {
  const one = o => {
    const names = [...new Set(o.points.flatMap(([, values]) => Object.keys(values)))];
    const rows = o.points.map(([at, values]) => [at, ...names.map(name => name in values ? short(values[name]) : "–")]);
    const word = o.holds === null ? "not covered" : `${o.role}, ${o.holds ? "holds" : "fails"}`;
    return el("div", {}, el("h3", {}, `Figure ${o.figure}: ${o.what}`),
      el("p", {}, el("span", { class: `badge ${o.role !== "predicted" || o.holds === null ? "warn" : o.holds ? "good" : "bad"}` }, word), `, ${o.unit === "us" ? "µs" : o.unit}`),
      table(["", ...names], rows, ["", ...names.map(() => "num")]),
      o.note ? el("p", { class: "faint why" }, `${capital(o.note)}.`) : null);
  };
  return section("orders", "Orders in Figures 5 to 10",
    el("p", { class: "faint" }, "What the text of the source says of its plots, which were not read off."),
    el("div", { class: "pair groups" }, data.orderings.map(one)));
}

const constants = data => section("constants", "Calibrated constants and choices",
  el("p", { class: "faint" }, "All that was fitted, for all shapes and tables together; every other number of the machine is the paper's or, as its file says, recalled."),
  table(["", "value", "from"], data.constants, ["", "num", ""]),
  el("p", { class: "faint" }, "Choices between models that were made by looking at compared cells:"),
  table(["", "chosen", "by looking at"], data.choices));

function build() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const counts = Object.entries(data.groups).map(([name, [inside, n]]) => [name, `${inside} of ${n}`]);
  const top = el("section", { id: "top", "aria-labelledby": "title" },
    el("h1", { id: "title" }, "The tables of Almasi et al. 2005, made again"),
    el("p", { class: "faint" }, `${data.source}.`),
    el("p", {}, `${data.summary}.`),
    table(["predicted cells inside the tolerances", ""], counts, ["", "num"]),
    el("p", { class: "faint why" }, "“Restated”: another cell has the same measurement. “From the published value”: a number or formula of the source itself, which holds anyway. Neither is counted, nor are calibrated cells and bounds."),
    data.left_out.map(text => el("p", { class: "faint why" }, `Left out: ${text}.`)));
  assemble([top, allToAll(data),
    ofTable(data, 3, "Table 3: bandwidth on 512 nodes", "Printed above, ours below, MB/s; bars are logarithmic. Ours are for 8 MiB, the all-to-all of MPICH2 for 1 MiB to each node. “/2”: the KB of the message that reaches half of the bandwidth."),
    ofTable(data, 4, "Table 4: latency on 512 nodes", "Printed above, ours below, µs; bars are logarithmic."),
    orders(data), constants(data)], "petacomm net paper");
}

build();
