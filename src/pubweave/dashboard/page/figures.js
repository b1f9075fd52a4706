// The row of figures at the top, and what the autopilot is doing.

import { byId, bytes, clock, el, milliseconds, number, show } from "./dom.js";

const tiles = new Map();

function tile(id, title, value, note, state) {
  let parts = tiles.get(id);
  if (!parts) {
    parts = { value: el("dd", { class: "value" }), note: el("dd", { class: "note" }) };
    parts.box = el("dl", { class: "tile", id: `tile-${id}` }, el("dt", {}, title), parts.value, parts.note);
    tiles.set(id, parts);
    byId("figures").append(parts.box);
  }
  if (parts.value.textContent !== value) parts.value.textContent = value;
  if (parts.note.textContent !== note) parts.note.textContent = note;
  parts.box.dataset.state = state ?? "";
}

export function showFigures(status) {
  const latency = status.latency;
  byId("name").textContent = status.overlay || "no overlay";
  document.title = status.overlay ? `${status.overlay} – pubweave` : "pubweave";
  tile("publications", "Publications", number(status.publications_per_s), "per second");
  tile("deliveries", "Deliveries", number(status.deliveries_per_s), "per second");
  tile("p50", "Latency, median", milliseconds(latency?.p50_ms), latency ? `mean ${milliseconds(latency.mean_ms)}` : "no telemetry");
  tile("p99", "Latency, 99%", milliseconds(latency?.p99_ms), latency ? `95%: ${milliseconds(latency.p95_ms)}` : "no telemetry");
  tile("queue", "Queued", number(status.queue_messages), `messages, ${bytes(status.queue_bytes)}`);
  tile("cost", "Cost", number(status.cost_per_s), status.cost_per_s === null ? "not known" : "ms per second");
  const down = status.brokers - status.brokers_up;
  tile("brokers", "Brokers", `${status.brokers_up}/${status.brokers}`, down ? `${down} down` : status.brokers ? "up" : "none", down ? "bad" : "");
  const broken = status.links - status.links_up;
  tile("links", "Links", `${status.links_up}/${status.links}`, broken ? `${broken} down` : status.links ? "up" : "none", broken ? "bad" : "");
  const { notifications_lost: lost, notifications_lost_at_most: more } = status.totals;
  const besides = more ? `at most ${number(more)} more; ` : "";
  tile("lost", "Lost", number(lost), `${besides}${number(status.clients)} clients`, lost ? "bad" : "");
}

const phases = {
  resting: "resting",
  profiling: "profiling the traffic",
  weighing: "weighing alternatives",
  awaiting_review: "waiting for your answer",
  deploying: "deploying a plan",
  standing_down: "standing down after a failed plan",
};

export function showAutopilot(autopilot, now) {
  show(byId("autopilot"), [autopilot, autopilot && Math.round(now / 5)], () => {
    if (!autopilot) return "no autopilot runs";
    let text = `autopilot (${autopilot.mode}) ${phases[autopilot.phase] ?? autopilot.phase}`;
    if (autopilot.stands_down_until) text += ` until ${clock(autopilot.stands_down_until)}`;
    else if (autopilot.phase === "resting" && autopilot.next_look_at) text += `, looks again at ${clock(autopilot.next_look_at)}`;
    if (autopilot.notice) text += `; ${autopilot.notice}`;
    return text;
  });
}
