// The page follows the server's events and hands each part to the view that shows it. A part is
// always whole, so it does not matter which ones were missed while the connection was away.

import { byId, clock, duration, el, show } from "./dom.js";
import { showAccess } from "./changes.js";
import { Charts } from "./charts.js";
import { showDecisions } from "./decisions.js";
import { showAutopilot, showFigures } from "./figures.js";
import { Picture } from "./picture.js";
import { showPlan } from "./plan.js";

const QUIET_S = 25; // the server says something every ten seconds
const RETRY_MS = 1000;

const picture = new Picture(byId("picture"));
const charts = new Charts(byId("charts"));
let stream = null;
let lastId = "";
let heardAt = Date.now();
let awaySince = null;
let troubles = [];
let lockedText = null;

const views = {
  troubles: (list) => { troubles = list; showTroubles(); },
  status: (status) => { showFigures(status); showAutopilot(status.autopilot, status.taken_at); },
  picture: (drawn) => picture.take(drawn),
  loads: (loads) => picture.load(loads),
  plan: (plan) => { showPlan(plan); charts.markPlan(plan); },
  decisions: (decisions) => { showDecisions(decisions); charts.markDecisions(decisions); },
  points: (points) => charts.add(points),
};

function connect() {
  if (stream) stream.close();
  stream = new EventSource(lastId ? `/events?after=${encodeURIComponent(lastId)}` : "/events");
  stream.onopen = () => { heardAt = Date.now(); };
  for (const [name, take] of Object.entries(views)) {
    stream.addEventListener(name, (event) => take(JSON.parse(event.data)));
  }
  stream.addEventListener("look", (event) => {
    lastId = event.lastEventId;
    heardAt = Date.now();
    if (awaySince !== null) { awaySince = lockedText = null; showTroubles(); showAccess(); }
    showPulse();
  });
  stream.onerror = () => {
    if (awaySince === null) { awaySince = Date.now() / 1000; showTroubles(); showPulse(); }
    // The browser tries again by itself after a lost connection, but not after an error page.
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
    showLock();
  };
}

// A secured dashboard that was started again wants its new token.
async function showLock() {
  const answer = await fetch("/api/access").catch(() => null);
  const isNews = (answer?.status === 401) !== (lockedText !== null);
  lockedText = answer?.status === 401 ? (await answer.text()).trim().replace(/\.$/, "") : null;
  if (isNews) showTroubles();
}

function showPulse() {
  const pulse = byId("pulse");
  const worst = awaySince !== null ? "away" : troubles.some((t) => t.severity === "error") ? "error"
    : troubles.some((t) => t.severity === "warning") ? "warning" : "live";
  const words = { away: "no connection", error: "in trouble", warning: "not complete", live: "live" };
  pulse.dataset.state = worst;
  if (pulse.textContent !== words[worst]) pulse.textContent = words[worst];
}

function showTroubles() {
  const all = awaySince === null ? troubles : [{
    kind: "dashboard_away",
    severity: "error",
    text: lockedText ?? "the dashboard does not answer; what is shown is of before, and the page goes on by itself when it is back",
    since: awaySince,
  }, ...troubles];
  show(byId("troubles"), all, () => all.map((trouble) =>
    el("p", { class: `trouble ${trouble.severity}`, "data-kind": trouble.kind },
      el("span", {}, trouble.text[0].toUpperCase() + trouble.text.slice(1) + "."),
      el("span", { class: "since" }, "since ", el("time", { "data-at": trouble.since }, clock(trouble.since))))));
  document.body.classList.toggle("stale", awaySince !== null);
  showPulse();
}

setInterval(() => {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    time.textContent = duration(Date.now() / 1000 - Number(time.dataset.ago));
  }
  if (Date.now() - heardAt > QUIET_S * 1000) {
    heardAt = Date.now();
    if (awaySince === null) { awaySince = Date.now() / 1000; showTroubles(); }
    connect();
  }
}, 1000);

showAccess();
connect();
