// Two overlapping classes: p(x, y), θ(x) and p(θ), as line charts.

import { byId, el, number, show, svg } from "./dom.js";
import { caller } from "./calls.js";
import { keep, state } from "./state.js";

const NAMES = ["separation", "variance", "pi"];
const [WIDE, HIGH, LEFT, BELOW, TOP] = [340, 230, 40, 34, 12];

const ask = caller("gaussians", draw);

export function start() {
  for (const name of NAMES) {
    byId(name).value = state[name];
    byId(name).addEventListener("input", () => {
      state[name] = Number(byId(name).value);
      keep();
      send();
    });
  }
}

export function send() {
  for (const name of NAMES) {
    document.querySelector(`output[for=${name}]`).textContent = number(state[name], name === "pi" ? 2 : 1);
  }
  ask(Object.fromEntries(NAMES.map((name) => [name, state[name]])));
}

function draw(said) {
  if (!said.x) return;
  byId("spread").textContent = `s = (μ₁ − μ₀)² / σ² = ${number(said.s, 3)}`;
  const both = said.joint[0].map((p, i) => p + said.joint[1][i]);
  const density = said.density[0].map((p, i) => p + said.density[1][i]);
  const usual = [...density].sort((a, b) => a - b)[Math.floor(0.96 * density.length)];
  show(byId("charts"),
    chart("p(x, y)", "x", said.x, [0, 1.08 * Math.max(...both)], [
      { y: said.joint[0], kind: "fill zero" }, { y: said.joint[1], kind: "fill one" }, { y: both, kind: "line" }],
      [["zero", "y = 0"], ["one", "y = 1"], ["sum", "p(x)"]]),
    chart("θ(x) = p(y=1 | x)", "x", said.x, [0, 1], [{ y: said.posterior, kind: "line" }]),
    chart("p(θ)", "θ", said.theta, [0, 1.15 * usual], [
      { bars: said.bins }, { y: density, kind: "line" }],
      [["zero", "y = 0"], ["one", "y = 1"], ["sum", "closed form"]], [0, 1]));
}

// ---- charts ----

function chart(title, name, x, [low, high], series, key = [], span = [x[0], x.at(-1)]) {
  const px = (v) => LEFT + ((v - span[0]) / (span[1] - span[0])) * (WIDE - LEFT - 8);
  const py = (v) => HIGH - BELOW - ((v - low) / (high - low)) * (HIGH - BELOW - TOP);
  const path = (y) => y.map((v, i) => `${i ? "L" : "M"}${px(x[i]).toFixed(1)},${py(v).toFixed(1)}`).join("");
  const closed = (y) => `${path(y)}L${px(x.at(-1)).toFixed(1)},${py(low)}L${px(x[0]).toFixed(1)},${py(low)}Z`;
  const drawn = series.flatMap((each) => {
    if (each.bars) return bars(each.bars, px, py);
    return svg("path", { d: each.kind === "line" ? path(each.y) : closed(each.y), class: each.kind });
  });
  const box = { x: LEFT, y: TOP - 2, width: WIDE - LEFT - 8, height: HIGH - BELOW - TOP + 3 }; // cuts off what is higher
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "chart", role: "img" },
    svg("title", {}, `${title}, over ${name}`),
    ticks(low, high, 4).map((v) => [
      svg("line", { x1: LEFT, x2: WIDE - 8, y1: py(v), y2: py(v), class: "grid" }),
      svg("text", { x: LEFT - 6, y: py(v) + 4, class: "end" }, label(v))]).flat(),
    ticks(...span, 5).map((v) => svg("text", { x: px(v), y: HIGH - BELOW + 16, class: "middle" }, label(v))),
    svg("text", { x: (LEFT + WIDE - 8) / 2, y: HIGH - 3, class: "middle" }, name),
    svg("svg", { ...box, viewBox: Object.values(box).join(" ") }, drawn),
    svg("line", { x1: LEFT, x2: WIDE - 8, y1: py(low), y2: py(low), class: "axis" }));
  const keys = el("span", { class: "key" }, key.map(([kind, text]) => el("span", { class: kind }, text)));
  return el("figure", {}, el("figcaption", {}, el("span", {}, title), keys), picture);
}

function bars([zero, one], px, py) {
  const wide = px(1 / zero.length) - px(0);
  return zero.flatMap((p, i) => {
    const bar = (from, to, kind) => svg("rect", {
      x: (px(i / zero.length) + 0.3).toFixed(2), width: (wide - 0.6).toFixed(2),
      y: py(to).toFixed(2), height: Math.max(0, py(from) - py(to)).toFixed(2), class: `bar ${kind}`,
    });
    return [bar(0, p, "zero"), bar(p, p + one[i], "one")];
  });
}

function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10);
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) out.push(v);
  return out;
}

const label = (v) => String(Number(v.toPrecision(4))).replace("-", "−");
