// What the picture says in words: of a broker, of a link, and its legend.

import { bytes, duration, el, milliseconds, number, plural, svg } from "./dom.js";

const roles = { removed: "is removed by the plan", pivot: "carries a shift in this step", new: "comes with the plan" };

export function brokerFacts(id, load) {
  const name = `Broker ${id}`;
  if (!load) return [name, "not part of the overlay yet"];
  if (!load.is_up) return [name, "down: it does not answer"];
  const facts = [name, `${number(load.publications_per_s)} publications/s`, `${number(load.deliveries_per_s)} deliveries/s`,
    plural(load.clients, "client"), plural(load.subscriptions, "subscription"), `${bytes(load.queue_bytes)} queued`];
  if (load.held_messages) facts.push(`${plural(load.held_messages, "message")} held for an action`);
  if (load.is_congested) facts.push("congested: others are held up");
  facts.push(`up for ${duration(load.uptime_s)}`);
  return facts;
}

export function linkFacts(link, load) {
  if (!link) return ["Link", "no longer there"];
  const facts = [`Link ${link.a} – ${link.b}`];
  if (!link.isStanding) facts.push("not there yet");
  else if (load) {
    facts.push(`${number(load.messages_per_s)} messages/s`, `round trip ${milliseconds(load.rtt_ms)}`, `${bytes(load.queue_bytes)} queued`);
    if (!load.is_up) facts.push("down");
  }
  if (link.role) facts.push(roles[link.role]);
  return facts;
}

function sample(kind, text, classes) {
  const mark = kind === "link"
    ? svg("svg", { viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": "true" }, svg("line", { x1: 2, y1: 6, x2: 32, y2: 6, class: classes }))
    : svg("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" }, svg("circle", { cx: 7, cy: 7, r: 5, class: classes }));
  return el("li", {}, mark, text);
}

export function legendItems(links, mostTraffic, mostLoad) {
  const has = (role) => links.some((link) => link.role === role);
  const items = [
    sample("link", "little traffic", "wire low"), sample("link", `most: ${number(mostTraffic)} messages/s`, "wire high"),
    sample("disc", "little load", "disc low"), sample("disc", `most: ${number(mostLoad)} publications/s`, "disc high"),
  ];
  if (has("removed")) items.push(sample("link", "goes", "wire removed now"));
  if (has("pivot")) items.push(sample("link", "pivot of a shift", "wire pivot now"));
  if (has("new")) items.push(sample("link", "comes", "wire new now"));
  if (links.some((link) => link.when === "proposed")) items.push(el("li", {}, "(proposed)"));
  else if (links.some((link) => link.when === "later")) items.push(el("li", {}, "faint: in a later step"));
  return items;
}
