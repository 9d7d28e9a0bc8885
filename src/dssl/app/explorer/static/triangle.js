// q(θ) over the triangle of three classes, as colours; arrows point up log q.

import { byId, el, number, show, style, svg } from "./dom.js";
import { caller } from "./calls.js";
import { keep, state } from "./state.js";

const STOPS = [[38, 30, 74], [52, 88, 140], [44, 143, 140], [120, 196, 98], [246, 229, 88]];
const DEPTH = 12; // log q further than this below its highest is cut off
const EDGE = 0.001;
const STEPS = 48;
const ABOUT = {
  "entropy": "log q = Σ θ log θ: rises gently towards certain predictions and is steepest at the corners.",
  "entropy, semantic": "Without rules every label is valid, so this is the entropy alone.",
  "exclusivity": "log q = log Σ θₖ Π (1 − θⱼ): the probability that exactly one of three independent attributes holds.",
  "pseudo-label": "log q = log max θ: pulls straight to the nearest corner, with a ridge where two classes tie.",
  "deterministic": "log q = log Σ θₖᵀ: spikes at the corners. T = 1 is flat; the larger T, the narrower the spikes " +
    "and the closer (divided by T) to the pseudo-label.",
};
let map = null;
let pick = [16, 16]; // steps of the first two classes

const ask = caller("triangle", (said) => {
  if (!said.log_q) return;
  map = said;
  draw();
}, (sent) => sent.prior === state.prior);

export function start() {
  show(byId("prior"), Object.keys(ABOUT).map((name) => el("option", { value: name }, name)));
  if (!(state.prior in ABOUT)) state.prior = "deterministic";
  const controls = { prior: "prior", "tri-power": "triPower", shown: "shown", arrows: "arrows" };
  for (const [id, name] of Object.entries(controls)) {
    const control = byId(id);
    if (control.type === "checkbox") control.checked = state[name];
    else control.value = state[name];
    control.addEventListener("input", () => {
      if (control.type === "checkbox") state[name] = control.checked;
      else state[name] = control.type === "range" ? Number(control.value) : control.value;
      keep();
      send();
    });
  }
  const canvas = byId("map");
  canvas.addEventListener("pointermove", (event) => {
    point(event.offsetX / canvas.clientWidth, event.offsetY / canvas.clientHeight);
  });
  canvas.addEventListener("keydown", move);
  addEventListener("resize", () => map && !byId("triangle").hidden && draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map && draw());
}

export function send() {
  byId("tri-power-value").textContent = String(state.triPower);
  byId("tri-power").disabled = state.prior !== "deterministic";
  byId("about").textContent = ABOUT[state.prior];
  ask({ prior: state.prior, power: state.triPower, steps: STEPS });
}

// ---- where things are: the triangle in a box of width 1, corners c₀ (left), c₁ (right), c₂ (top) ----

const PAD = 0.07;
const HIGH = Math.sqrt(3) / 2;
const BOX = HIGH * (1 - 2 * PAD) + 2 * PAD; // height
const place = ([a, b, c]) => [PAD + (1 - 2 * PAD) * (b + c / 2), BOX - PAD - (1 - 2 * PAD) * HIGH * c];

function theta(x, y) {
  const c = (BOX - PAD - y) / ((1 - 2 * PAD) * HIGH);
  const b = (x - PAD) / (1 - 2 * PAD) - c / 2;
  return [1 - b - c, b, c];
}

const index = (i, j) => i * (map.steps + 1) - (i * (i - 1)) / 2 + j; // rows of the grid grow shorter
const levels = () => {
  const top = Math.max(...map.log_q);
  return state.shown === "q" ? map.log_q.map(Math.exp) : map.log_q.map((x) => Math.max(x, top - DEPTH));
};

function between(values, [a, b]) {
  const clamp = (x) => Math.min(map.steps, Math.max(0, x * map.steps));
  const [u, v] = [clamp(a), clamp(b)];
  let [i, j] = [Math.floor(u), Math.floor(v)];
  i = Math.min(i, map.steps - 1);
  j = Math.min(j, map.steps - 1 - i);
  const [f, g] = [u - i, v - j];
  const at = (p, q) => values[index(i + p, j + q)];
  if (f + g <= 1 || i + j + 2 > map.steps) return at(0, 0) + f * (at(1, 0) - at(0, 0)) + g * (at(0, 1) - at(0, 0));
  return at(1, 1) + (1 - f) * (at(0, 1) - at(1, 1)) + (1 - g) * (at(1, 0) - at(1, 1));
}

function colour(share) {
  const at = Math.min(STOPS.length - 1.0001, Math.max(0, share * (STOPS.length - 1)));
  const k = Math.floor(at);
  return STOPS[k].map((x, c) => x + (at - k) * (STOPS[k + 1][c] - x));
}

// ---- drawing ----

function draw() {
  const canvas = byId("map");
  const wide = canvas.clientWidth || 480;
  const dense = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.round(wide * dense);
  canvas.height = Math.round(wide * BOX * dense);
  const pen = canvas.getContext("2d");
  const values = levels();
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const image = pen.createImageData(canvas.width, canvas.height);
  for (let y = 0; y < canvas.height; y++) {
    for (let x = 0; x < canvas.width; x++) {
      const t = theta((x + 0.5) / canvas.width, (y + 0.5) / canvas.width);
      if (Math.min(...t) < 0) continue;
      const share = high > low ? (between(values, t) - low) / (high - low) : 1;
      image.data.set([...colour(share), 255], 4 * (y * canvas.width + x));
    }
  }
  pen.putImageData(image, 0, 0);
  pen.scale(canvas.width, canvas.width); // a box of width 1 from here on
  frame(pen, wide);
  if (state.arrows) arrows(pen);
  legend(low, high);
  read(pen, wide);
}

function frame(pen, wide) {
  const corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  pen.beginPath();
  corners.forEach((corner, k) => pen[k ? "lineTo" : "moveTo"](...place(corner)));
  pen.closePath();
  pen.lineWidth = 1.2 / wide;
  pen.strokeStyle = style("--line");
  pen.stroke();
  pen.fillStyle = style("--ink");
  pen.font = `${14 / wide}px system-ui, sans-serif`;
  pen.textAlign = "center";
  ["a", "b", "c"].forEach((name, k) => {
    const [x, y] = place(corners[k]);
    pen.fillText(name, x + [-14, 14, 0][k] / wide, y + [14, 14, -8][k] / wide);
  });
}

function arrows(pen) {
  const flows = map.arrows.map(([, , , a, b, c]) => [b + c / 2 - (a + b + c) / 2, -HIGH * c]);
  const sizes = flows.map(([x, y]) => Math.hypot(x, y));
  const usual = [...sizes].sort((a, b) => a - b)[Math.floor(sizes.length / 2)];
  pen.strokeStyle = "rgba(255, 255, 255, 0.85)";
  pen.lineWidth = 0.0028;
  map.arrows.forEach((each, i) => {
    const size = Math.max(sizes[i], 0.3 * usual, 1e-9);
    const [dx, dy] = flows[i].map((x) => (0.042 * x) / size);
    if (Math.hypot(dx, dy) < 0.004) return;
    const [x, y] = place(each);
    pen.beginPath();
    pen.moveTo(x - dx / 2, y - dy / 2);
    pen.lineTo(x + dx / 2, y + dy / 2);
    pen.moveTo(x + dx / 2 - 0.3 * dx - 0.18 * dy, y + dy / 2 - 0.3 * dy + 0.18 * dx);
    pen.lineTo(x + dx / 2, y + dy / 2);
    pen.lineTo(x + dx / 2 - 0.3 * dx + 0.18 * dy, y + dy / 2 - 0.3 * dy - 0.18 * dx);
    pen.stroke();
  });
}

function legend(low, high) {
  const stops = STOPS.map((rgb, k) =>
    svg("stop", { offset: k / (STOPS.length - 1), "stop-color": `rgb(${rgb.join(" ")})` }));
  const bar = svg("svg", { class: "ramp", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("defs", {}, svg("linearGradient", { id: "ramp" }, stops)),
    svg("rect", { width: 100, height: 6, fill: "url(#ramp)" }));
  const texts = [number(low, 3), state.shown === "q" ? "q" : "log q", number(high, 3)];
  show(byId("legend"), bar, el("p", { class: "row between mono small" }, texts.map((text) => el("span", {}, text))));
}

// ---- reading values ----

function point(x, y) {
  if (!map) return;
  const [a, b, c] = theta(x, y * BOX);
  if (Math.min(a, b, c) < -0.02) return;
  const i = Math.min(map.steps, Math.max(0, Math.round(a * map.steps)));
  pick = [i, Math.min(map.steps - i, Math.max(0, Math.round(b * map.steps)))];
  draw();
}

function move(event) {
  const steps = { ArrowLeft: [1, -1], ArrowRight: [-1, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!steps || !map) return;
  event.preventDefault();
  const [i, j] = [pick[0] + steps[0], pick[1] + steps[1]];
  if (i >= 0 && j >= 0 && i + j <= map.steps) pick = [i, j];
  draw();
}

function read(pen, wide) {
  const [i, j] = pick;
  const inside = [i, j, map.steps - i - j].map((x) => (x / map.steps) * (1 - 3 * EDGE) + EDGE);
  const log = map.log_q[index(i, j)];
  const [x, y] = place(inside);
  pen.beginPath();
  pen.arc(x, y, 6 / wide, 0, 2 * Math.PI);
  pen.lineWidth = 2 / wide;
  pen.strokeStyle = "#fff";
  pen.stroke();
  pen.beginPath();
  pen.arc(x, y, 7.5 / wide, 0, 2 * Math.PI);
  pen.lineWidth = 1 / wide;
  pen.strokeStyle = "#222";
  pen.stroke();
  const q = Number(Math.exp(log).toPrecision(4));
  const text = `θ = (${inside.map((t) => number(t, 3)).join(", ")})   log q = ${number(log)}   q = ${q}`;
  byId("picked").textContent = text;
  const label = `Map of q over three classes, ${state.prior}. At the mark: ${text}. Arrow keys move the mark.`;
  byId("map").setAttribute("aria-label", label);
}
