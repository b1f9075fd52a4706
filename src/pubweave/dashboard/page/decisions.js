// The decisions of the control loop: what was known, weighed, predicted, done, and how it turned
// out. One that waits for a person stands above the others with its buttons.

import { change, mayChange, whenAccessChanges } from "./changes.js";
import { byId, clock, el, milliseconds, number, percent, plural, show } from "./dom.js";

const words = {
  closed: "nothing to do", observed: "only observed", waiting: "waits for you", approved: "approved",
  deploying: "being deployed", deployed: "deployed", failed: "failed", aborted: "given up",
  rejected: "rejected", expired: "expired",
};
const unacted = { stay: "stays", hold: "not now", no_evidence: "not enough known" };
const verdicts = { change: "Change", stay: "Stay", hold: "Not now", no_evidence: "Not enough known" };
let last = null;
const opened = new Set();

function cost(value) {
  return value === null || value === undefined ? "–" : `${number(value)} ms/s`;
}

function word(decision) {
  if (decision.state === "closed") return unacted[decision.verdict] ?? words.closed;
  return words[decision.state] ?? decision.state;
}

function facts(decision) {
  const rows = [["cost then", cost(decision.inputs?.cost_ms_per_s)]];
  if (decision.prediction) {
    rows.push(["predicted", `${cost(decision.prediction.cost_ms_per_s)} (${percent(decision.prediction.saving_share)} less)`]);
  }
  if (decision.measured) {
    const error = decision.measured.prediction_error;
    const off = Math.abs(error) < 0.0005 ? "as predicted" : `${percent(Math.abs(error))} ${error > 0 ? "dearer" : "cheaper"} than predicted`;
    rows.push(["measured after", `${cost(decision.measured.cost_ms_per_s)} (${off})`]);
  }
  const chosen = decision.alternatives.find((each) => each.name === decision.chosen);
  if (chosen && decision.verdict === "change") {
    rows.push(["saves over the period", milliseconds(chosen.benefit_ms)]);
    rows.push(["the change costs", milliseconds(chosen.change_cost_ms)]);
  }
  if (chosen?.step_count) {
    rows.push(["plan", `${plural(chosen.step_count, "step")}, ${plural(chosen.action_count, "action")}`]);
  }
  if (decision.outcome_reason) rows.push(["why it ended so", decision.outcome_reason]);
  if (decision.reviewed_by) rows.push(["answered by", decision.reviewed_by]);
  if (decision.stands_down_until) rows.push(["stands down until", clock(decision.stands_down_until)]);
  return el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function alternatives(decision) {
  if (!decision.alternatives.length) return null;
  return el("div", { class: "scroll" }, el("table", {},
    el("caption", {}, "What was weighed"),
    el("thead", {}, el("tr", {}, ["alternative", "cost ms/s", "links", "net benefit"].map((t) => el("th", { scope: "col" }, t)))),
    el("tbody", {}, decision.alternatives.map((each) =>
      el("tr", { class: each.name === decision.chosen ? "chosen" : null },
        el("th", { scope: "row" }, each.name, each.name === decision.chosen ? " ✓" : ""),
        el("td", {}, number(each.cost_ms_per_s)),
        el("td", {}, each.added_links.length ? `+${each.added_links.length} −${each.removed_links.length}` : "–"),
        el("td", {}, each.refusal || (each.added_links.length ? milliseconds(each.net_ms) : "–")))))));
}

function whole(decision) {
  const remember = (event) => {
    if (event.target.open) opened.add(decision.id);
    else opened.delete(decision.id);
  };
  return el("details", { class: "decision", id: `decision-${decision.id}`, open: opened.has(decision.id), ontoggle: remember },
    el("summary", {},
      el("time", {}, clock(decision.decided_at, false)),
      el("span", { class: `chip ${decision.state}` }, word(decision)),
      el("span", { class: "reason" }, decision.reason)),
    el("p", {}, el("strong", {}, `${verdicts[decision.verdict] ?? decision.verdict}: `), decision.reason),
    facts(decision), alternatives(decision));
}

function waitingCard(decision) {
  const path = `/api/decisions/${encodeURIComponent(decision.id)}`;
  const answer = mayChange()
    ? el("p", { class: "buttons" },
      el("button", { class: "primary", id: `approve-${decision.id}`, onclick: () => change(`${path}/approve`) }, "Approve the plan"),
      el("button", { id: `reject-${decision.id}`, onclick: () => change(`${path}/reject`) }, "Reject"))
    : el("p", { class: "muted" }, "Answer with ", el("code", {}, `pubweave decisions approve ${decision.id}`), " or ", el("code", {}, "reject"), ".");
  return el("article", { class: "waiting", "aria-label": `Decision ${decision.id} waits for your answer` },
    el("h3", {}, "A plan waits for your answer"),
    el("p", {}, decision.reason), facts(decision), answer,
    el("p", { class: "muted" }, "The picture shows what it would change, once no other plan is under way.",
      decision.expires_at ? ` Without an answer it expires at ${clock(decision.expires_at)}.` : ""));
}

export function showDecisions(decisions) {
  last = decisions;
  if (!decisions) return;
  const waiting = decisions.filter((decision) => decision.state === "waiting");
  show(byId("waiting"), [waiting, mayChange()], () => waiting.map(waitingCard));
  show(byId("decisions-body"), decisions, () => (decisions.length
    ? decisions.map(whole)
    : el("p", { class: "empty" }, "No decision was made for this overlay yet: 'pubweave autopilot' makes them.")));
}

whenAccessChanges(() => showDecisions(last));
