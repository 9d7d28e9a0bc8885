// Labelling: the next row worth a label, what follows from each answer, and answers written down, with undo.

import { byId, el, number, show } from "./dom.js";
import { caller, post } from "./calls.js";
import { told } from "./beliefs.js";
import { ruleList } from "./rules.js";

const MOST_SKIPPED = 500; // rows that are left for later
const page = crypto.randomUUID();
let run = null; // variables and rules
let row = null; // what the server says of it
let said = {}; // of a variable, the values that are possible; what is not here was not said
let id = null; // of the answer under way: the same until it is written, so that it is written once
let skipped = [];
let at = 0; // the value that has the keys

const describe = caller("run", (answer) => {
  if (!answer.variables) return note(answer.message ?? answer.refused, "bad");
  run = answer;
  return follow();
});
const suppose = caller("suppose", supposed, (sent) => sent.row === row?.row && sent.said === said);

const BUTTONS = {
  save, accept, cannot: () => write({ cannot_tell: true }), skip, clear: () => say({}),
};
const KEYS = { s: save, a: accept, c: BUTTONS.cannot, l: skip, x: BUTTONS.clear, z: undo, y: () => press(yes),
  n: () => press(not), o: () => press(or), ArrowDown: () => move(1), ArrowUp: () => move(-1) };

export function start() {
  for (const [name, action] of Object.entries(BUTTONS)) byId(`label-${name}`).addEventListener("click", action);
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select");
    if (byId("label").hidden || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const tabs = event.target.closest?.("[role=tablist]") && event.key.startsWith("Arrow");
    if (!Object.hasOwn(KEYS, event.key) || tabs) return;
    event.preventDefault();
    KEYS[event.key]();
  });
}

export const send = () => (run ? row ?? follow() : describe({}));

// The run is another now: ask for everything anew.
export function renew() {
  [run, row, skipped] = [null, null, []];
  describe({ renewed: page + performance.now() });
}

// ---- the queue ----

async function follow(wanted = null) {
  const answer = await post("next", { page, row: wanted, skip: skipped });
  if (answer.message || answer.refused) return note(answer.message ?? answer.refused, "bad");
  row = answer.done ? null : answer;
  [said, id, at] = [{}, crypto.randomUUID(), 0];
  stated(answer);
  if (!row) {
    for (const place of ["values", "cells", "picture", "follows", "earlier", "worth"]) show(byId(`label-${place}`));
    byId("label-row").textContent = "No row is left";
    return note("Every row has an answer, or is on another page.", "");
  }
  byId("label-row").textContent = answer.place[0].toUpperCase() + answer.place.slice(1);
  byId("label-worth").textContent = answer.nats === null ? "" :
    `its label would tell ${number(answer.nats / Math.LN2, 2)} bits`;
  byId("label-earlier").textContent = answer.earlier ? `The answer so far: ${answer.earlier}` : "";
  const alt = `The picture of ${answer.place}`;
  show(byId("label-picture"), answer.picture ? el("img", { src: answer.picture, alt }) : null);
  show(byId("label-cells"), el("table", {}, el("tbody", {}, answer.cells.map(([name, text]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, text || "–"))))));
  return supposed(answer);
}

function stated(answer) {
  const most = answer.all_rows ? "" : " or more";
  byId("label-state").textContent =
    `${answer.given} given, ${answer.left.toLocaleString("en")}${most} rows left, kept in ${answer.file}`;
  show(byId("label-recent"), answer.recent.map((each) => el("li", {},
    el("span", {}, el("b", {}, `${each.row} `), each.label),
    el("button", { type: "button", class: "small", click: () => take(each.id), "aria-label": `Take back ${each.row}` },
      "undo"))));
}

// ---- one row ----

const count = (v) => run.variables[v].values.length;
const every = (v) => Array.from({ length: count(v) }, (_, k) => k);
const places = () => [...byId("label-values").querySelectorAll(".value")];

function supposed(answer) {
  if (answer.message || answer.refused) return note(answer.message ?? answer.refused, "bad");
  row = { ...row, ...answer };
  const ruled = new Map(answer.ruled.map((each) => [`${each.variable} ${each.value}`, each.rules]));
  show(byId("label-values"), run.variables.map((variable, v) => {
    if (variable.kind === "binary") return line(v, 1, ruled);
    return el("fieldset", {}, el("legend", {}, variable.name), every(v).map((k) => line(v, k, ruled)));
  }));
  const note = answer.clash === null ? null : el("div", { class: "note bad" },
    el("p", {}, answer.clash.length ? "This is impossible: it contradicts" : "This is impossible."),
    ruleList(answer.clash.map((i) => run.rules[i])));
  const best = answer.top ? el("p", { class: "quiet" }, "Most probable: ", label(answer.top[0].label),
    `, ${number(100 * Math.exp(answer.top[0].log_p), 0)} %`) : null;
  show(byId("label-follows"), note, best, answer.why ? el("p", { class: "note" }, answer.why) : null);
  byId("label-save").disabled = answer.clash !== null;
  if (places().length) focus(Math.min(at, places().length - 1), false);
  return null;
}

const label = (values) => values.map((value, i) => [run.variables[i], value])
  .filter(([variable, value]) => variable.kind !== "binary" || value)
  .map(([variable, value]) => told(variable, value)).join(", ") || "none of them";

function line(v, k, ruled) {
  const variable = run.variables[v];
  const binary = variable.kind === "binary";
  const left = row.possible?.[v] ?? every(v);
  const mine = said[v];
  const why = ruled.get(`${v} ${k}`) ?? (binary ? ruled.get(`${v} 0`) : null);
  const isOut = !left.includes(k);
  const only = left.length === 1 && left[0] === k;
  const pressed = only && mine ? "true" : mine?.includes(k) && mine.length < count(v) ? "mixed" : "false";
  const chance = row.marginals ? `${number(100 * row.marginals[variable.start + (binary ? 0 : k)], 0)} %` : "";
  const value = el("button", {
    type: "button", class: "value", "aria-pressed": pressed, "aria-disabled": isOut && !mine ? "true" : null,
    "data-variable": v, "data-value": k, click: () => { focusOn(v, k); yes(v, k); },
  }, binary ? variable.name : variable.values[k], el("span", { class: "chance" }, chance));
  const kind = isOut ? "out" : only && !mine ? "follows" : "";
  return el("div", { class: `answer-row ${kind}` }, value,
    el("button", { type: "button", class: "small", tabindex: -1, click: () => { focusOn(v, k); not(v, k); },
      "aria-label": `not ${binary ? variable.name : variable.values[k]}` }, "not"),
    binary ? null : el("button", { type: "button", class: "small", tabindex: -1, click: () => { focusOn(v, k); or(v, k); },
      "aria-label": `or ${variable.values[k]}` }, "or"),
    why?.length ? el("span", { class: "why" }, isOut ? "excluded by " : "follows from ",
      el("code", {}, why.map((i) => run.rules[i].text).join("; "))) : null);
}

function say(next) {
  if (!row) return;
  said = next;
  note();
  suppose({ row: row.row, said });
}

const yes = (v, k) => say({ ...said, [v]: [k] });
const not = (v, k) => {
  const rest = (said[v] ?? every(v)).filter((each) => each !== k);
  if (rest.length) say({ ...said, [v]: rest });
};
const or = (v, k) => {
  const before = said[v] && said[v].length < count(v) ? said[v] : [];
  say({ ...said, [v]: before.includes(k) ? before : [...before, k].sort((a, b) => a - b) });
};

// ---- keys ----

function focus(to, really = true) {
  const all = places();
  at = Math.max(0, Math.min(all.length - 1, to));
  all.forEach((each, i) => { each.tabIndex = i === at ? 0 : -1; });
  const inside = byId("label-values").contains(document.activeElement) || document.activeElement === document.body;
  if (really || inside) all[at].focus();
}

const focusOn = (v, k) => focus(places().findIndex((e) => e.dataset.variable === String(v) && e.dataset.value === String(k)));
const move = (by) => places().length && focus(at + by);

function press(action) {
  const place = places()[at];
  if (place) action(Number(place.dataset.variable), Number(place.dataset.value));
}

// ---- answers ----

function note(text = "", kind = "") {
  show(byId("label-note"), text ? el("p", { class: `note ${kind}` }, text) : null);
}

function save() {
  write({ said });
}

function accept() {
  if (row?.top) write({ said: Object.fromEntries(row.top[0].label.map((value, v) => [v, [value]])) });
}

async function write(what) {
  if (!row) return;
  const sent = row;
  const answer = await post("answer", { id, row: sent.row, seen: sent.seen, ...what });
  if (row !== sent && row?.row !== sent.row) return;
  if (answer.written) {
    note(`The answer about row ${sent.row} is saved.`, "");
    await follow();
  } else if (answer.meanwhile !== undefined) {
    row = { ...row, seen: answer.seen };
    note(answer.meanwhile === null ? "The answer to this row was taken back meanwhile. Save again to give yours." :
      `Someone answered this row meanwhile: ${answer.meanwhile}. Save again to replace that, or go on with Later.`, "warn");
  } else note(`Not written: ${answer.message ?? answer.refused}`, "bad");
}

function skip() {
  if (row) skipped = [...skipped, row.row].slice(-MOST_SKIPPED);
  note();
  return follow(null);
}

async function take(which) {
  const answer = await post("undo", { id: which });
  if (answer.row === undefined) return note(answer.message ?? answer.refused, "bad");
  await follow(answer.row);
  return note(`The answer about row ${answer.row} was taken back.`, "");
}

function undo() {
  const last = byId("label-recent").querySelector("button");
  if (last) last.click();
}

