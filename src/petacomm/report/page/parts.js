// Parts common to all pages: sections, tables, and the switch between light and dark.

const section = (id, title, ...children) => el("section", { id, "aria-labelledby": `${id}-title` },
  el("h2", { id: `${id}-title` }, title), children);

function table(head, rows, kinds = []) {
  const cells = row => row.map((cell, i) => el(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : { class: kinds[i] ?? "" }, cell));
  return el("div", { class: "scroll", tabindex: "0" }, el("table", { class: head ? "facts wide" : "facts" },
    head && el("thead", {}, el("tr", {}, head.map((name, i) => el("th", { scope: "col", class: kinds[i] ?? "" }, name)))),
    el("tbody", {}, rows.map(row => el("tr", {}, cells(row))))));
}

function theme() {
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const told = () => document.dispatchEvent(new Event("themechange"));
  dark.addEventListener("change", told);
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    told();
  });
}

function assemble(made, foot) {
  document.getElementById("main").append(...made);
  document.getElementById("nav").append(...made.slice(1).map(part =>
    el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent)));
  document.getElementById("foot").textContent = foot;
  theme();
}
