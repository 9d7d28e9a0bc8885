// Sliders for θ, and what priors and rules make of it.

import { byId, chance, el, number, show } from "./dom.js";
import { caller } from "./calls.js";
import { keep, state } from "./state.js";

const MOST = 200; // columns with a slider
const NAMES = {
  "entropy": "entropy", "entropy, semantic": "entropy + semantic", "exclusivity": "exclusivity / semantic loss",
  "pseudo-label": "pseudo-label", "deterministic": "deterministic, T",
};
let space = null;
let rows = []; // of each column: slider, θ, marginal

const ask = caller("beliefs", answer, (sent) => sent.text === state.text && space !== null);

export function start() {
  byId("power").value = state.power;
  byId("seed").value = state.seed;
  byId("power").addEventListener("input", () => change(() => { state.power = Number(byId("power").value); }));
  byId("seed").addEventListener("input", () => {
    const seed = Number(byId("seed").value);
    if (Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31) change(() => { state.seed = seed; });
  });
  byId("even").addEventListener("click", () => fill((binary) => (binary ? 0.5 : 0)));
  byId("random").addEventListener("click", () => fill((binary) => {
    const z = 2 * (Math.random() + Math.random() + Math.random() + Math.random() - 2);
    return Number((binary ? 1 / (1 + Math.exp(-z)) : 1.5 * z).toFixed(binary ? 3 : 1));
  }));
}

// Sliders for another space; those of columns that stay keep their place.
export function follow(said) {
  space = said;
  rows = [];
  const width = space ? space.variables.at(-1).stop : 0;
  if (!space || width > MOST) {
    const many = `Sliders are shown for up to ${MOST} columns; these rules have ${width}.`;
    show(byId("sliders"), el("p", { class: "quiet" }, space ? many : "The rules have an error: see the first tab."));
    for (const id of ["priors", "best", "tops", "chance"]) show(byId(id));
    return;
  }
  const heads = ["output", "", "θ", "given the rules"].map((text) => el("span", {}, text));
  show(byId("sliders"),
    el("div", { class: "belief head quiet small", "aria-hidden": "true" }, heads),
    space.variables.map((variable) => (variable.kind === "binary" ? binary(variable) : block(variable))));
  send();
}

function binary(variable) {
  return row(variable.name, variable.name, { min: 0.001, max: 0.999, step: 0.001 }, 0.5, "θ");
}

function block(variable) {
  return el("fieldset", {}, el("legend", {}, variable.name), variable.values.map((value) =>
    row(value, `${variable.name}=${value}`, { min: -8, max: 8, step: 0.1 }, 0, "z")));
}

function row(label, column, range, usual, letter) {
  const id = `column-${rows.length}`;
  const slider = el("input", { type: "range", id, ...range });
  const kept = Object.hasOwn(state.values, column) ? state.values[column] : usual;
  slider.value = typeof kept === "number" ? kept : usual;
  const theta = el("output", { for: id, class: "mono" });
  const share = el("span", { class: "share" });
  const given = el("span", { class: "mono" });
  slider.addEventListener("input", () => change(() => { state.values[column] = Number(slider.value); }));
  rows.push({ column, slider, theta, share, given, binary: letter === "θ" });
  return el("div", { class: "belief" },
    el("label", { for: id }, el("span", { class: "quiet" }, `${letter} `), label), slider,
    el("span", { class: "quiet small" }, "θ ", theta),
    el("span", { class: "given", title: "probability given the rules" }, el("span", { class: "meter" }, share), given));
}

function change(action) {
  action();
  keep();
  send();
}

function fill(make) {
  change(() => {
    for (const each of rows) {
      each.slider.value = make(each.binary);
      state.values[each.column] = Number(each.slider.value);
    }
  });
}

export function send() {
  byId("power-value").textContent = String(state.power);
  if (!space || !rows.length) return;
  const values = rows.map((each) => Number(each.slider.value));
  ask({ text: state.text, values, power: state.power, seed: state.seed, top: 5, samples: 5 });
}

// ---- answers ----

function answer(said) {
  if (!said.theta || said.theta.length !== rows.length) return;
  rows.forEach((each, i) => {
    each.theta.textContent = number(said.theta[i], 3);
    each.given.textContent = number(said.marginals[i], 3);
    each.share.style.setProperty("width", `${100 * said.marginals[i]}%`);
  });
  const soft = space.rules.some((rule) => /^[\d.e-]+ ::/.test(rule.text)); // then labels have weights of their own
  byId("chance").textContent = `${soft ? "weight of valid labels" : "P(valid)"} = ${chance(said.valid)}`;
  show(byId("priors"), said.priors.map((prior) => el("tr", {},
    el("th", { scope: "row" },
      NAMES[prior.name] ?? prior.name, prior.name === "deterministic" ? ` = ${state.power}` : null,
      prior.note ? el("span", { class: "quiet block" }, prior.note) : null),
    el("td", { class: "num", "data-prior": prior.name }, number(prior.log_q)),
    el("td", { class: "num", "data-maximised": prior.name }, number(prior.maximised)))));
  best(said);
  tops(said);
}

function best(said) {
  const final = said.top[0]?.label;
  if (!final) return show(byId("best"), el("p", { class: "quiet" }, "No label is valid."));
  const changed = final.filter((value, i) => value !== said.raw[i]).length;
  const text = changed
    ? `The rules change ${changed} of ${final.length} variables of what the network alone would say.`
    : "The same as what the network alone would say.";
  return show(byId("best"), chips(space, final, said.raw), el("p", { class: "quiet" }, text));
}

// A variable's value in words.
export function told(variable, value) {
  if (variable.kind === "binary") return `${value ? "" : "not "}${variable.name}`;
  return `${variable.name} = ${variable.values[value]}`;
}

// A label as chips; where it differs from another label, both are shown.
export function chips(of, label, other = label, only = null) {
  const shown = only ?? of.variables.map((_, i) => i);
  return el("ul", { class: "chips" }, shown.map((i) => {
    const variable = of.variables[i];
    const off = variable.kind === "binary" && !label[i];
    const now = told(variable, label[i]);
    if (label[i] === other[i]) return el("li", { class: off ? "off" : "" }, now);
    return el("li", { class: "changed" }, el("s", {}, told(variable, other[i])), " ", el("b", {}, now));
  }));
}

function tops(said) {
  const line = (label) => label.map((value, i) => cell(space.variables[i], value));
  const heads = ["p(y | valid)", ...space.variables.map((variable) => variable.name)];
  show(byId("tops"), el("table", { class: "dense" },
    el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, said.top.map((each) =>
      el("tr", {}, el("td", { class: "num" }, chance(Math.exp(each.log_p))), line(each.label)))),
    el("tbody", {}, said.samples.map((label, i) =>
      el("tr", {}, el("td", { class: "quiet" }, `sample ${i + 1}`), line(label))))));
}

function cell(variable, value) {
  if (variable.kind !== "binary") return el("td", {}, variable.values[value]);
  return el("td", { class: value ? "" : "no" }, value ? "✓" : "·");
}
