// What the page shows, kept in the address after '#', so that a view can be reloaded and handed on.

import { quietly } from "./calls.js";

export const state = {
  tab: "rules", text: "", values: {}, power: 10, seed: 0,
  prior: "deterministic", triPower: 10, shown: "q", arrows: true,
  separation: 2, variance: 1, pi: 0.3, row: null,
};
const first = structuredClone(state);

export function restore() {
  let kept = {};
  try {
    kept = JSON.parse(decodeURIComponent(location.hash.slice(1) || "{}"));
  } catch {
    return false; // an address that someone shortened: begin anew
  }
  if (kept === null || typeof kept !== "object") return false;
  for (const [name, value] of Object.entries(kept)) {
    const fits = first[name] === null ? Number.isInteger(value) : typeof value === typeof first[name];
    if (name in first && fits) state[name] = value;
  }
  if (state.values === null || Array.isArray(state.values)) state.values = {};
  return typeof kept.text === "string";
}

export const keep = quietly(() => {
  const told = Object.entries(state).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(first[name]));
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(Object.fromEntries(told)))}`);
}, 250);
