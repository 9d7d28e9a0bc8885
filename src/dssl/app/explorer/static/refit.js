// Refitting: a fit in the background, how far it is, accuracy by labels so far, and predictions that changed.

import { byId, el, number, show } from "./dom.js";
import { post } from "./calls.js";
import * as label from "./label.js";
import * as rules from "./rules.js";
import * as run from "./run.js";

const EVERY_MS = 1000;
let shown = null; // the run that the page knows
let timer = null;

export function start() {
  byId("refit").addEventListener("click", async () => told(await post("refit", {})));
  byId("tab-label").addEventListener("click", look);
  rules.onKept(async (file) => told(await post("refit", { rules: file })));
  if (!byId("tab-label").hidden) look();
}

async function look() {
  told(await post("progress", {}));
}

function told(said) {
  clearTimeout(timer);
  if (said.message || said.refused) {
    byId("refit-state").textContent = said.message ?? said.refused;
    return;
  }
  const bar = byId("refit-progress");
  bar.hidden = !said.running;
  bar.value = said.step / said.of;
  byId("refit").disabled = said.running;
  const done = said.step >= said.of ? "trained; calibrating and measuring" : `step ${said.step} of ${said.of}`;
  byId("refit-state").textContent = said.running ? `Refitting: ${done}` :
    said.failure ? `The refit failed: ${said.failure}` : `This is ${said.run}.`;
  if (said.running) timer = setTimeout(look, EVERY_MS);
  curve(said.curve);
  changes(said.changes);
  if (shown !== null && shown !== said.run) {
    run.renew();
    label.renew();
  }
  shown = said.run;
}

function curve(runs) {
  if (!runs.length) return show(byId("refit-curve"));
  const share = (p) => (p === null || p === undefined ? "no test rows" : `${number(100 * p, 1)} %`);
  const heads = ["run", "labelled rows", "right on test rows"];
  return show(byId("refit-curve"), el("table", { class: "dense" },
    el("thead", {}, el("tr", {}, heads.map((text, i) => el("th", { scope: "col", class: i ? "num" : "" }, text)))),
    el("tbody", {}, runs.map((each) => el("tr", {}, el("th", { scope: "row" }, each.run),
      el("td", { class: "num" }, String(each.labels)), el("td", { class: "num" }, share(each.accuracy)))))));
}

function changes(said) {
  if (!said) return show(byId("refit-changes"));
  const known = said.better + said.worse
    ? ` Of rows with labels, ${said.better} became right and ${said.worse} wrong.` : "";
  const text = `${said.changed} of ${said.rows} rows are predicted differently since the last run.${known}`;
  const mark = (better) => (better === null ? "" : better ? "right now" : "wrong now");
  return show(byId("refit-changes"), el("p", {}, text), said.listed.length ? el("table", { class: "dense" },
    el("thead", {}, el("tr", {}, ["row", "before", "after", ""].map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, said.listed.map((each) => el("tr", {}, el("th", { scope: "row" }, String(each.row)),
      el("td", {}, each.before), el("td", {}, each.after), el("td", {}, mark(each.better)))))) : null);
}
