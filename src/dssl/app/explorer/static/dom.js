// Elements from data. Texts are always set as text, never parsed: whatever is typed cannot become markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

export function show(place, ...children) {
  place.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

// ---- numbers ----

export function number(x, digits = 4) {
  if (x === null) return "−∞";
  const rounded = x.toFixed(digits);
  return (Number(rounded) === 0 ? rounded.replace("-", "") : rounded).replace("-", "−");
}

// A probability, however small.
export const chance = (p) => (p === 0 || p >= 1e-3 ? number(p) : p.toExponential(2).replace("-", "−"));

export function grouped(text) {
  if (text.length > 24) return `${text[0]}.${text.slice(1, 4)} × 10^${text.length - 1}`;
  return text.replace(/\B(?=(\d{3})+$)/g, ",");
}

export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- a picture made elsewhere ----

const TAGS = new Set(["svg", "title", "g", "path", "rect", "circle", "text"]);
const ATTRIBUTES = new Set(["class", "viewBox", "width", "height", "role", "d", "x", "y", "rx", "r", "cx", "cy"]);

// A copy of an SVG text that holds shapes and texts only.
export function picture(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const copy = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
    if (node.nodeType !== Node.ELEMENT_NODE || !TAGS.has(node.localName)) return null;
    const kept = [...node.attributes].filter((a) => ATTRIBUTES.has(a.name)).map((a) => [a.name, a.value]);
    return svg(node.localName, Object.fromEntries(kept), [...node.childNodes].map(copy));
  };
  return copy(parsed);
}
