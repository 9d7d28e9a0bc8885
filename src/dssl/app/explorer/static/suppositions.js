// What if: values of a row are supposed, and the most probable label, the probabilities and the rules follow.

import { byId, el, number, show } from "./dom.js";
import { caller } from "./calls.js";
import { chips, told } from "./beliefs.js";
import { ruleList } from "./rules.js";

let run = null;
let row = null;
let before = null; // what was predicted without suppositions
let said = {}; // of a variable, the values that are possible

const suppose = caller("suppose", follows, (sent) => sent.said === said && sent.row === row);

export function start() {
  byId("if-variable").addEventListener("change", values);
  byId("if-add").addEventListener("click", add);
  byId("if-clear").addEventListener("click", () => ask({}));
}

// A row that was predicted; values that were typed in have no number (null), and nothing is supposed of them.
export function about(of, number, prediction) {
  byId("what-if").hidden = number === null;
  [run, row, before, said] = [of, number, prediction, {}];
  show(byId("if-variable"), of.variables.map((variable, i) => el("option", { value: i }, variable.name)));
  values();
  show(byId("if-said"));
  show(byId("if-follows"));
}

function values() {
  const variable = run.variables[Number(byId("if-variable").value)];
  show(byId("if-value"), variable.values.map((value, k) => el("option", { value: k }, value)));
  if (variable.kind === "binary") byId("if-value").value = 1;
}

function add() {
  const [v, k] = [Number(byId("if-variable").value), Number(byId("if-value").value)];
  const every = run.variables[v].values.map((_, i) => i);
  const now = said[v] ?? every;
  const next = {
    is: () => [k], not: () => now.filter((each) => each !== k),
    or: () => [...new Set([...(now.length < every.length ? now : []), k])].sort((a, b) => a - b),
  }[byId("if-how").value]();
  if (next.length) ask({ ...said, [v]: next });
}

function ask(next) {
  said = next;
  const words = Object.entries(said).map(([v, ks]) => ks.map((k) => told(run.variables[v], k)).join(" or "));
  show(byId("if-said"), words.length ? el("ul", { class: "chips" }, words.map((text) => el("li", {}, text))) : null);
  if (words.length) suppose({ row, said });
  else show(byId("if-follows"));
}

function follows(answer) {
  const place = byId("if-follows");
  if (answer.message || answer.refused) return show(place, el("p", { class: "note bad" }, answer.message ?? answer.refused));
  const rules = (numbers) => ruleList(numbers.map((i) => run.rules[i]));
  if (answer.clash !== null) {
    return show(place, el("div", { class: "note bad" }, el("p", {}, "This is impossible: it contradicts"), rules(answer.clash)));
  }
  const best = answer.top[0];
  const moved = run.variables.flatMap((variable, v) => Array.from({ length: variable.stop - variable.start }, (_, k) => {
    const c = variable.start + k;
    return [variable.kind === "binary" ? variable.name : told(variable, k), before.marginals[c], answer.marginals[c]];
  })).filter(([, a, b]) => Math.abs(a - b) >= 0.005);
  const heads = [["", "output"], ["num", "before"], ["num", "then"]];
  return show(place,
    el("p", {}, `Most probable in that case, ${number(100 * Math.exp(best.log_p), 0)} %:`),
    chips(run, best.label, before.final),
    answer.why ? el("p", { class: "note" }, answer.why) : null,
    answer.ruled.length ? el("details", {}, el("summary", {}, `${answer.ruled.length} values are excluded`),
      answer.ruled.map((each) => el("div", {}, el("p", {}, told(run.variables[each.variable], each.value), ", by"),
        rules(each.rules)))) : null,
    moved.length ? el("table", { class: "dense" },
      el("thead", {}, el("tr", {}, heads.map(([kind, text]) => el("th", { scope: "col", class: kind }, text)))),
      el("tbody", {}, moved.map(([name, a, b]) => el("tr", {}, el("th", { scope: "row" }, name),
        [a, b].map((p) => el("td", { class: "num" }, number(p, 3))))))) : null);
}
