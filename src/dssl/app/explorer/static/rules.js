// The editor of rules: errors at their place, valid labels, warnings, and the circuit.

import { byId, el, grouped, picture, show } from "./dom.js";
import { caller, post, quietly } from "./calls.js";
import { EXAMPLES } from "./examples.js";
import { keep, state } from "./state.js";

const WINDOW = 70; // characters of a line that an error shows
const FEW = 4; // rules that a warning lists at once
const NOTHING = () => el("p", { class: "quiet" }, "–");
const followers = [];
let lines = new Map(); // line → how it is marked

export const onSpace = (action) => followers.push(action);

const kept = []; // what to do when rules were kept in a file
let told = null; // the rules of the run, if there is one

export const onKept = (action) => kept.push(action);

// The rules of a run: what a change would do to it, what its labels suggest, and a refit with other rules.
export function ofRun(text) {
  if (text === null) return;
  told = text;
  byId("of-run").hidden = false;
  byId("run-text").addEventListener("click", () => write(told));
  byId("propose").addEventListener("click", propose);
  byId("keep").addEventListener("click", keepRules);
}

const current = (sent) => sent.text === state.text;
const askRules = caller("rules", answer, current);
const askDiagnosis = caller("diagnosis", warn, current);
const askEffects = caller("effects", affect, current);
const typed = quietly(() => askRules({ text: state.text }), 180);

export function start() {
  const picker = byId("example");
  const names = Object.keys(EXAMPLES).map((name) => el("option", { value: name }, name));
  show(picker, el("option", { value: "" }, "choose …"), names);
  picker.addEventListener("change", () => picker.value && write(EXAMPLES[picker.value]));
  const area = byId("text");
  area.value = state.text;
  area.addEventListener("input", () => {
    state.text = area.value;
    picker.value = "";
    mark(new Map());
    keep();
    typed();
  });
  area.addEventListener("scroll", follow);
  mark(lines);
}

export function write(text) {
  state.text = byId("text").value = text;
  mark(new Map());
  keep();
  ask();
}

export const ask = () => askRules({ text: state.text });

// ---- marks behind the text ----

function mark(marked, column = null) {
  lines = marked;
  const texts = state.text.split("\n");
  show(byId("gutter"), texts.map((_, i) => el("div", { class: marked.get(i + 1)?.kind ?? "" }, String(i + 1))));
  show(byId("marks"), texts.map((text, i) => {
    const at = marked.get(i + 1);
    if (!at) return el("div", {}, text || " ");
    if (column === null || at.kind !== "bad") return el("div", { class: at.kind }, text || " ");
    const end = column + Math.max(1, (/^\w+/.exec(text.slice(column)) ?? [""])[0].length);
    const word = el("mark", {}, text.slice(column, end) || " ");
    return el("div", { class: "bad" }, text.slice(0, column), word, text.slice(end));
  }));
  follow();
}

function follow() {
  const area = byId("text");
  byId("gutter").scrollTop = byId("marks").scrollTop = area.scrollTop;
  byId("marks").scrollLeft = area.scrollLeft;
}

// ---- answers ----

function answer(said) {
  const space = said.variables ? said : null;
  problem(said);
  byId("editor").classList.toggle("wrong", !space);
  byId("text").setAttribute("aria-invalid", String(!space));
  byId("count").textContent = space ? grouped(said.count) : "–";
  byId("share").textContent = space ? `of ${grouped(said.all)} labels that the variables allow` : "";
  labels(space);
  circuit(space?.circuit);
  if (space && told !== null) askEffects({ text: state.text });
  if (space) askDiagnosis({ text: state.text });
  else show(byId("findings"), NOTHING());
  followers.forEach((action) => action(space));
}

function affect(said) {
  const quiet = (text) => show(byId("effects"), el("p", { class: "quiet" }, text));
  if (said.message || said.refused) return quiet(said.message ?? said.refused);
  byId("keep").disabled = said.other !== undefined || said.broken > 0;
  if (said.other) return quiet(`These rules are not about the run: ${said.other}.`);
  const rows = `of ${said.rows.toLocaleString("en")} rows`;
  const side = said.labelled ? ` On ${said.labelled} of them the label is known: ${said.better} would become right, ` +
    `${said.worse} wrong.` : "";
  const list = (items, line) => (items.length ? el("details", {}, el("summary", {}, "Rows"),
    el("ul", { class: "rules" }, items.map((each) => el("li", {}, el("b", {}, `${each.row} `), line(each))))) : null);
  const fine = el("p", { class: "quiet" }, "No label breaks these rules.");
  return show(byId("effects"),
    said.broken ? el("div", { class: "note bad" }, el("p", {}, `${said.broken} label${said.broken === 1 ? " breaks" : "s break"} these rules, ${rows}.`),
      list(said.broken_rows, (each) => each.rules.join("; "))) : fine,
    el("p", {}, `${said.changed} predictions ${rows} would change at once.${side}`),
    list(said.changed_rows, (each) => `${each.before} → ${each.after}` +
      (each.better === null ? "" : each.better ? " (right)" : " (wrong)")));
}

async function propose() {
  const said = await post("proposals", { text: state.text });
  const none = said.message ?? said.refused ?? said.other ?? "The labels suggest no further rule.";
  const add = (rule) => el("button", { type: "button", class: "small", "aria-label": `Add ${rule.text}`,
    click: (event) => {
      event.target.closest("li").remove();
      write(`${state.text.trimEnd()}\n${rule.text}\n`);
    } }, "add");
  show(byId("proposals"), said.rules?.length ? el("ul", { class: "rules" }, said.rules.map((rule) => el("li", {},
    add(rule), el("code", {}, ` ${rule.text} `), el("span", { class: "quiet block small" }, rule.figures))))
    : el("p", { class: "quiet" }, none));
}

async function keepRules() {
  const said = await post("keep", { text: state.text, sure: true });
  if (!said.kept) return show(byId("proposals"), el("p", { class: "note bad" }, said.message ?? said.refused));
  show(byId("proposals"), el("p", { class: "note" }, `Kept as ${said.name}. The Label tab shows the refit.`));
  return kept.forEach((action) => action(said.kept));
}

function problem(said) {
  const place = byId("problem");
  if (said.variables) {
    mark(new Map());
    show(place);
    return;
  }
  const error = said.error;
  if (!error) {
    mark(new Map());
    show(place, el("div", { class: "note warn" }, el("p", {}, said.refused ?? said.message)));
    return;
  }
  const marked = new Map(error.conflict.map((rule) => [rule.line, { kind: "clash" }]));
  if (error.line !== null) marked.set(error.line, { kind: "bad" });
  mark(marked, error.column === null ? null : error.column - 1);
  const where = error.line === null ? null : el("strong", {}, `Line ${error.line}, column ${error.column}: `);
  show(place, el("div", { class: "note bad" },
    el("p", {}, where, error.reason),
    error.source === null || error.column === null ? null : caret(error.source, error.column - 1),
    error.conflict.length ? ruleList(error.conflict) : null,
    el("p", { class: "quiet" }, error.remedy)));
}

function caret(source, column) {
  const start = Math.max(0, column - WINDOW / 2);
  const text = [...source.slice(start, start + WINDOW)].map((c) => (c < " " ? " " : c)).join("");
  const lead = start ? "…" : "";
  return el("pre", { class: "caret" }, `${lead}${text}\n${" ".repeat(lead.length + column - start)}^`);
}

export function ruleList(rules) {
  return el("ol", { class: "rules" }, rules.map((rule) => {
    const place = rule.line === null ? null : el("span", { class: "quiet" }, `line ${rule.line} `);
    return el("li", {}, place, el("code", {}, rule.text));
  }));
}

function folded(rules) {
  if (rules.length <= FEW) return ruleList(rules);
  return el("details", {}, el("summary", {}, `${rules.length} rules`), ruleList(rules));
}

function warn(said) {
  const found = said.findings ?? [];
  if (!found.length) {
    const text = said.refused ?? said.message ?? "Nothing stands out: no value is forced, and every rule says something.";
    show(byId("findings"), el("p", { class: "quiet" }, text));
    return;
  }
  for (const rule of found.flatMap((finding) => finding.rules)) {
    if (rule.line !== null && !lines.has(rule.line)) lines.set(rule.line, { kind: "warn" });
  }
  mark(lines);
  show(byId("findings"),
    found.map((finding) => el("div", { class: "note warn" },
      el("p", {}, el("strong", {}, `${finding.kind}: `), finding.message), folded(finding.rules))),
    said.more ? el("p", { class: "quiet" }, `and ${said.more} more`) : null);
}

function labels(space) {
  const place = byId("labels");
  if (!space) return show(place, NOTHING());
  const names = space.variables.map((variable) => variable.name);
  const kinds = new Map(space.variables.map((variable) => [variable.name, variable.kind]));
  const cell = (name, value) => {
    if (kinds.get(name) !== "binary") return el("td", {}, value);
    return el("td", { class: value === "false" ? "no" : "" }, value === "true" ? "✓" : "·");
  };
  return show(place, el("table", { class: "dense" },
    el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, space.labels.map((label) => el("tr", {}, names.map((name) => cell(name, label[name])))))));
}

function circuit(said) {
  const count = (n, what) => `${n.toLocaleString("en")} ${what}`;
  byId("size").textContent = said
    ? `${count(said.nodes, "nodes")}, ${count(said.edges, "edges")}, depth ${said.depth}, ` +
      `compiled in ${said.milliseconds} ms`
    : "";
  if (!said) return show(byId("drawing"), NOTHING());
  if (said.svg) return show(byId("drawing"), picture(said.svg));
  const text = `Drawn up to ${said.drawn} nodes: this circuit is too large to be read as a picture.`;
  return show(byId("drawing"), el("p", { class: "quiet" }, text));
}
