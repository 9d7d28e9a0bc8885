// Calls of the server: one at a time for each purpose, the newest request next, answers that came too late dropped.

import { byId } from "./dom.js";

const TRIES = 5;
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

export function tell(text, kind = "") {
  const place = byId("status");
  if (place.textContent !== text) place.textContent = text;
  place.className = `status ${kind}`;
}

// What the server says of itself, once its workers are ready.
export async function ready() {
  for (;;) {
    try {
      const state = await (await fetch("api/state")).json();
      if (state.failure) {
        tell(state.failure, "bad");
        return state;
      }
      if (state.ready) {
        tell("ready", "good");
        return state;
      }
      tell("warming up: on a new machine this takes a minute, once", "busy");
    } catch {
      tell("the server does not answer: start dssl explore again", "bad");
    }
    await pause(0.5);
  }
}

export async function post(name, request) {
  for (let turn = 1; ; turn++) {
    const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request) };
    let response;
    try {
      response = await fetch(`api/${name}`, options);
    } catch {
      tell("the server does not answer: start dssl explore again", "bad");
      return { message: "The server does not answer." };
    }
    if (response.status === 503 && turn < TRIES) {
      tell("busy, trying again …", "busy");
      await pause(Number(response.headers.get("retry-after")) || 2);
      continue;
    }
    const answer = await response.json();
    if (response.status < 500) tell("ready", "good");
    else tell(answer.message, "bad");
    return answer;
  }
}

// A function that sends requests and shows their answers. While one is under way only the newest other is kept, and
// `still(request)` says whether its answer is of interest when it comes.
export function caller(name, show, still = () => true) {
  let next = null;
  let busy = false;
  return async (request) => {
    next = request;
    if (busy) return;
    busy = true;
    while (next) {
      const sent = next;
      next = null;
      const late = setTimeout(() => tell("working …", "busy"), 400);
      const answer = await post(name, sent);
      clearTimeout(late);
      if (still(sent)) show(answer, sent);
    }
    busy = false;
  };
}

// The same function, called once things are quiet.
export function quietly(action, milliseconds) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), milliseconds);
  };
}
