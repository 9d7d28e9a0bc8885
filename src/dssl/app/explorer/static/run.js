// A run: its report, and single predictions with the reasons why the rules changed them.

import { byId, chance, el, number, show } from "./dom.js";
import { caller } from "./calls.js";
import { chips, told } from "./beliefs.js";
import { ruleList } from "./rules.js";
import * as suppositions from "./suppositions.js";
import { keep, state } from "./state.js";

let run = null;
const fields = new Map();

const describe = caller("run", (said) => {
  if (!said.variables) return show(byId("verdict"), el("p", { class: "note bad" }, said.message ?? said.refused));
  run = said;
  return opened();
});
const predict = caller("prediction", verdict);

export function start() {
  suppositions.start();
  byId("show-row").addEventListener("click", pickRow);
  byId("row").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    pickRow();
  });
  byId("run-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (fields.size) predict({ values: Object.fromEntries([...fields].map(([name, field]) => [name, field.value])) });
  });
}

export const send = () => run || describe({});

// The run is another now.
export const renew = () => { run = null; };

function pickRow() {
  const row = Number(byId("row").value);
  if (byId("row").value === "" || !Number.isInteger(row)) return;
  state.row = row;
  keep();
  predict({ row });
}

function opened() {
  byId("run-title").textContent = run.title;
  const facts = Object.entries(run.facts).filter(([, text]) => text);
  show(byId("run-facts"), facts.flatMap(([name, text]) =>
    [el("dt", {}, name), el("dd", { class: name === "command" ? "mono" : "" }, text)]));
  const none = el("p", { class: "quiet" }, "None: every label is valid.");
  show(byId("run-rules"), run.rules.length ? ruleList(run.rules) : none);
  byId("run-rows").hidden = !run.rows;
  byId("predict").hidden = !run.inputs.length;
  inputs();
  unsure();
  byId("report-card").hidden = !run.report;
  const frame = { src: "run/report", sandbox: "allow-scripts allow-downloads", title: "Report of the run", loading: "lazy" };
  if (run.report) show(byId("report"), el("iframe", frame));
  if (run.rows && state.row !== null) {
    byId("row").value = state.row;
    predict({ row: state.row });
  }
}

function inputs() {
  fields.clear();
  show(byId("run-inputs"), el("div", { class: "inputs" }, run.inputs.map((input, i) => {
    const id = `input-${i}`;
    const values = input.values.map((value) => el("option", { value }, value));
    const field = input.kind === "categorical"
      ? el("select", { id }, el("option", { value: "" }, "not known"), values)
      : el("input", { id, placeholder: input.usual, inputmode: input.kind === "numeric" ? "decimal" : "text" });
    fields.set(input.name, field);
    return el("p", { class: "field" }, el("label", { for: id }, input.name), field);
  })));
}

function unsure() {
  if (!run.unsure.length) return show(byId("unsure"));
  return show(byId("unsure"), "Least certain rows: ", run.unsure.map((each) => el("button", {
    type: "button", class: "small", title: each.label,
    click: () => { byId("row").value = each.row; pickRow(); },
  }, String(each.row))));
}

// ---- what is said of a row ----

function verdict(said, sent) {
  if (!said.final) return show(byId("verdict"), el("p", { class: "note bad" }, said.message ?? said.refused));
  for (const [name, field] of fields) {
    if (Object.hasOwn(said.cells, name)) field.value = said.cells[name];
  }
  suppositions.about(run, sent.row ?? null, said);
  const changed = said.final.some((value, i) => value !== said.raw[i]);
  return show(byId("verdict"),
    chips(run, said.final, said.raw, said.shown),
    changed ? why(said) : el("p", { class: "quiet" }, "The same as what the network alone would say."),
    said.notes.map((note) => el("p", { class: "note warn" }, note)),
    el("h3", {}, "Probabilities"), probabilities(said),
    el("h3", {}, "Most probable valid labels"),
    el("ol", { class: "tops" }, said.top.map((each) => el("li", {},
      el("span", { class: "mono" }, chance(Math.exp(each.log_p))), chips(run, each.label, each.label, said.shown)))));
}

function why(said) {
  const list = (numbers) => ruleList(numbers.map((i) => run.rules[i]));
  const breaks = el("p", {}, "What the network alone would say breaks:");
  return el("div", {},
    said.broken.length ? el("div", { class: "note warn" }, breaks, list(said.broken)) : null,
    el("h3", {}, "Why"),
    el("ul", { class: "reasons" }, said.reasons.map((reason) =>
      el("li", {}, sentence(reason, said), list(reason.rules)))));
}

function sentence(reason, said) {
  const value = (i, label) => told(run.variables[i], label[i]);
  const i = reason.variable;
  const change = [el("s", {}, value(i, said.raw)), " → ", el("b", {}, value(i, said.final))];
  if (reason.forced) {
    const kept = reason.kept.map((k) => value(k, said.final)).join(", ");
    const given = kept ? `given ${kept}` : "whatever else holds";
    return el("p", {}, change, `: ${given}, the network's value is forbidden by`);
  }
  const price = reason.times === null
    ? "no valid label keeps it"
    : `the best label that keeps it is ${number(reason.times, 2)} times less probable`;
  return el("p", {}, change, `: ${price}. What the network alone would say is ruled out, or made less likely, by`);
}

function probabilities(said) {
  const rows = said.shown.flatMap((i) => {
    const variable = run.variables[i];
    const name = (k) => (variable.kind === "binary" ? variable.name : `${variable.name} = ${variable.values[k]}`);
    return Array.from({ length: variable.stop - variable.start }, (_, k) => [name(k), variable.start + k]);
  });
  const heads = [["", "output"], ["num", "θ, the network's"], ["num", "given the rules"]];
  const table = el("table", { class: "dense" },
    el("thead", {}, el("tr", {}, heads.map(([kind, text]) => el("th", { scope: "col", class: kind }, text)))),
    el("tbody", {}, rows.map(([name, c]) => el("tr", {}, el("th", { scope: "row" }, name),
      [said.theta[c], said.marginals[c]].map((p) => el("td", { class: "num" }, number(p, 4)))))));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Probabilities" }, table);
}
