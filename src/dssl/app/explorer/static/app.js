// The page: tabs, and what each of them asks for when it is shown.

import { byId } from "./dom.js";
import { ready } from "./calls.js";
import { EXAMPLES } from "./examples.js";
import { keep, restore, state } from "./state.js";
import * as rules from "./rules.js";
import * as beliefs from "./beliefs.js";
import * as triangle from "./triangle.js";
import * as gaussians from "./gaussians.js";
import * as run from "./run.js";
import * as label from "./label.js";
import * as refit from "./refit.js";

const VIEWS = { rules: null, beliefs: null, triangle, gaussians, label, run };
const tab = (name) => byId(`tab-${name}`);
const open = () => Object.keys(VIEWS).filter((name) => !tab(name).hidden);

function choose(name, focus = false) {
  state.tab = open().includes(name) ? name : "rules";
  for (const each of Object.keys(VIEWS)) {
    const chosen = each === state.tab;
    byId(each).hidden = !chosen;
    tab(each).setAttribute("aria-selected", String(chosen));
    tab(each).tabIndex = chosen ? 0 : -1;
  }
  if (focus) tab(state.tab).focus();
  const list = document.querySelector("[role=tablist]"); // scrollIntoView would move where the Tab key begins
  list.scrollLeft = tab(state.tab).offsetLeft + tab(state.tab).offsetWidth - list.offsetLeft - list.clientWidth + 16;
  VIEWS[state.tab]?.send();
  keep();
}

function tabs() {
  for (const name of Object.keys(VIEWS)) tab(name).addEventListener("click", () => choose(name));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const names = open();
    const at = names.indexOf(state.tab);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(names.at(next % names.length), true);
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address after '#' holds the state
    byId("main").focus();
  });
}

function begin(server) {
  if (!restore()) {
    state.text = server.text ?? Object.values(EXAMPLES)[0];
    if (server.text === null) state.values = { legs: 0.9, fins: 0.8, wings: 0.3 };
  }
  tab("run").hidden = tab("label").hidden = !server.run;
  if (server.run && !location.hash) state.tab = server.tab;
  rules.onSpace(beliefs.follow);
  if (server.run) rules.ofRun(server.text);
  for (const view of [rules, beliefs, triangle, gaussians, label, refit, run]) view.start();
  tabs();
  choose(state.tab);
  rules.ask();
  addEventListener("hashchange", () => location.reload());
}

const server = await ready();
if (!server.failure) begin(server);
