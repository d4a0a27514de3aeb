// Page of placements: minimaps of a torus, the communication matrix, and the loads of links.

const axisName = (d, n) => (n <= 3 ? "XYZ" : "ABCDEF")[d];
const rgb = t => `rgb(${PALETTES.dusk(Math.max(0, Math.min(1, t))).join(" ")})`;
const signed = share => `${share > 0 ? "+" : share < 0 ? "−" : ""}${figure(Math.abs(100 * share), 2)} %`;

// A canvas that fills the width; the drawing uses its own units.
function picture(width, height, label, draw) {
  const canvas = el("canvas", { role: "img", "aria-label": label, class: "minimap" });
  const scale = 2;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  draw(context);
  return canvas;
}

// Nodes in two dimensions of the torus, with links coloured by load.
function minimap(map, largest, step, names) {
  const [rows, columns] = map.shape;
  const [width, height] = [(columns + 1) * step, (rows + 1) * step];
  const label = `Mean load of the links of dimensions ${names.join(" and ")}; the busiest carries ${bytes(Math.max(...map.down, ...map.across))}.`;
  return picture(width, height, label, c => {
    const at = (row, column) => [step * (column + 0.75), step * (row + 0.75)];
    c.lineWidth = Math.max(1.5, step * 0.34);
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
      const [x, y] = at(row, column);
      const end = { across: column === columns - 1, down: row === rows - 1 };
      for (const [kind, dx, dy] of [["across", 1, 0], ["down", 0, 1]]) {
        const load = map[kind][row * columns + column];
        if (end[kind] && load === 0) continue;
        c.strokeStyle = rgb(load / largest);
        // A link that wraps around is drawn as a short segment at both ends.
        const length = step * (end[kind] ? 0.5 : 1);
        c.beginPath();
        c.moveTo(x, y);
        c.lineTo(x + dx * length, y + dy * length);
        c.stroke();
      }
    }
  });
}

function matrixPicture(matrix, label) {
  const squares = Uint8Array.from(atob(matrix.squares), c => c.charCodeAt(0));
  const table = lookupTable("dusk");
  const canvas = el("canvas", { role: "img", "aria-label": label, class: "matrix" });
  canvas.width = canvas.height = matrix.side;
  const context = canvas.getContext("2d");
  const image = context.createImageData(matrix.side, matrix.side);
  const words = new Uint32Array(image.data.buffer);
  squares.forEach((level, i) => { words[i] = level === 0 ? 0 : table[Math.round((LEVELS - 1) * (0.15 + 0.85 * level / 255))]; });
  context.putImageData(image, 0, 0);
  return canvas;
}

const figured = (made, caption) => el("figure", { class: "shot" }, made, el("figcaption", {}, caption));

function minimapTable(scene) {
  const drawn = scene.placements.filter(p => p.maps.length);
  if (!drawn.length) return null;
  const largest = Math.max(...drawn.flatMap(p => p.maps.flatMap(m => [...m.down, ...m.across])), 1e-9);
  const n = Math.max(...drawn.flatMap(p => p.maps.flatMap(m => m.dimensions))) + 1;
  const widest = Math.max(...drawn.flatMap(p => p.maps.map(m => Math.max(...m.shape))));
  const step = Math.max(3, Math.min(18, Math.floor(300 / (widest + 1))));
  const columns = drawn.map(p => el("div", { class: "column" }, el("h4", {}, p.title),
    p.maps.map(m => figured(minimap(m, largest, step, m.dimensions.map(d => axisName(d, n))),
      `${axisName(m.dimensions[0], n)} down, ${axisName(m.dimensions[1], n)} across`))));
  return el("div", {}, el("h3", {}, "Loads of links, projected on pairs of dimensions"),
    el("p", { class: "faint" }, "Each line is the mean of the links that lie over it, of both directions; all pictures have one scale."),
    el("div", { class: "shots" }, columns),
    el("div", { class: "scale" }, el("span", {}, "0 B"), el("i", { style: `background: ${gradient("dusk")}` }), el("span", {}, bytes(largest))));
}

function matrices(scene) {
  const last = scene.placements.at(-1);
  const one = (matrix, caption) => figured(matrixPicture(matrix, caption), `${caption}: ${bytes(matrix.least)} to ${bytes(matrix.largest)} a square`);
  return el("div", {}, el("h3", {}, "Who sends to whom"),
    el("p", { class: "faint" }, "Senders down, receivers across, colours logarithmic; empty where nothing is sent."),
    el("div", { class: "shots" }, one(scene.matrix, "By rank"), one(last.matrix, `By place, ${last.title}`)));
}

function metricsTable(scene) {
  const random = scene.placements.find(p => p.title.includes("random"));
  const against = p => signed(p.metrics.largest_load / random.metrics.largest_load - 1);
  const columns = [
    ["placement", p => p.title], ["busiest link", p => bytes(p.metrics.largest_load)],
    random && random.metrics.largest_load && ["against random", against],
    ["mean link", p => bytes(p.metrics.mean_load)], ["hops a byte", p => figure(p.metrics.dilation, 3)],
    ["hop-bytes", p => bytes(p.metrics.hop_bytes)], ["edges inside nodes", p => whole(p.metrics.internal_edges)],
    ["between nodes", p => whole(p.metrics.remote_edges)]].filter(Boolean);
  return table(columns.map(([name]) => name), scene.placements.map(p => columns.map(([, cell]) => cell(p))),
    columns.map((_, i) => i ? "num" : ""));
}

const curves = scene => curveChart({
  curves: scene.placements.map((p, i) => ({ name: p.title, points: p.curve, colour: i % 3, dash: i % 3 })),
  xName: "links that carry at least as much", yName: "bytes of a link", label: "Links sorted by what they carry, the busiest first." });

const scenePart = (scene, i) => section(`scene${i}`, scene.title,
  el("p", {}, scene.text),
  el("p", { class: "faint" }, `${whole(scene.ranks)} ranks, ${whole(scene.edges)} edges, on ${scene.network}. Messages go ${scene.routes}.`),
  metricsTable(scene), minimapTable(scene),
  el("div", { class: "pair" }, matrices(scene), el("div", {}, el("h3", {}, "Links by what they carry"), curves(scene))),
  scene.more.map(part => el("div", {}, el("h3", {}, part.title), table(part.head, part.rows, part.head.map((_, k) => k && part.rows.every(row => /^[\d.]/.test(row[k])) ? "num" : "")))));

function build() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const top = el("section", { id: "top", "aria-labelledby": "title" }, el("h1", { id: "title" }, data.title),
    el("p", { class: "faint" }, "Where ranks go, and what that does to the links. Bytes are those of one exchange."));
  assemble([top, ...data.scenes.map(scenePart)], "petacomm map");
}

build();
