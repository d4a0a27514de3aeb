// Formatted numbers, and elements created without parsing text as HTML.

function el(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && !tag.startsWith("svg:") && typeof value !== "string") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.flat(9).filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const superscript = n => String(n).replace("-", "⁻").replace(/\d/g, d => SUPERSCRIPTS[d]);

// A number to `digits` digits: 1234.5, 0.01234, 1.23×10⁻⁷.
function figure(value, digits = 4) {
  const v = Number(value);
  if (!Number.isFinite(v)) return String(value).replace("Infinity", "∞").replace("inf", "∞").replace("NaN", "–").replace("nan", "–");
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e-3 && size < 1e6) {
    const fixed = Number(v.toPrecision(digits));
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return fixed.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: places }).replace("-", "−");
  }
  const [mantissa, exponent] = v.toExponential(digits - 1).split("e");
  return `${mantissa.replace("-", "−")}×10${superscript(Number(exponent))}`;
}

const capital = text => text.charAt(0).toUpperCase() + text.slice(1);
const whole = n => Number(n).toLocaleString("en");

function scaled(value, unit, steps, base) {
  let v = Number(value);
  let i = 0;
  while (Math.abs(v) >= base && i < steps.length - 1) { v /= base; i++; }
  return `${figure(v, 3)} ${steps[i]}${unit}`;
}
const bytes = n => scaled(n, "B", ["", "k", "M", "G", "T", "P"], 1000);

function seconds(s) {
  const v = Number(s);
  if (v >= 3600) return `${Math.floor(v / 3600)} h ${Math.round(v % 3600 / 60)} min`;
  if (v >= 60) return `${Math.floor(v / 60)} min ${Math.round(v % 60)} s`;
  if (v >= 1 || v === 0) return `${figure(v, 3)} s`;
  return v >= 1e-3 ? `${figure(v * 1e3, 3)} ms` : `${figure(v * 1e6, 3)} µs`;
}

// Unit for values of this size: [factor, name].
function readable(unit, size) {
  if (!/^(K|Jy|V|W)([_/]\w+)?$/.test(unit) || !(size > 0)) return [1, pretty(unit)];
  if (size < 5e-7) return [1e9, "n" + pretty(unit)];
  if (size < 5e-4) return [1e6, "µ" + pretty(unit)];
  if (size < 0.5) return [1e3, "m" + pretty(unit)];
  return [1, pretty(unit)];
}
const SUBSCRIPTS = { _CMB: "ᴄᴍʙ", _RJ: "ʀᴊ" };
const pretty = unit => unit.replace(/_CMB|_RJ/, word => SUBSCRIPTS[word]).replace(/\^(-?\d+)/, (_, n) => superscript(n));
