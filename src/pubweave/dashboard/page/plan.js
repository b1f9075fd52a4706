// The plan in motion: how far it is, the step under way, and the buttons that stop it.

import { change, mayChange, whenAccessChanges } from "./changes.js";
import { byId, el, plural, show } from "./dom.js";

const words = {
  ready: "ready to begin", running: "under way", paused: "paused", aborting: "being given up",
  done: "done", aborted: "given up",
};
let last = null;

function headline(plan) {
  const steps = plan.steps_done < plan.step_count && plan.is_in_motion
    ? `step ${plan.steps_done + 1} of ${plan.step_count}`
    : plan.state === "done" ? `all ${plural(plan.step_count, "step")}`
      : `${plan.steps_done} of ${plural(plan.step_count, "step")} done`;
  return `${words[plan.state] ?? plan.state}: ${steps}`;
}

function actionRow(action) {
  const notes = [];
  if (action.held_messages) notes.push(`${plural(action.held_messages, "message")} held`);
  if (action.waits_for.length) notes.push(`waits for ${action.waits_for.join(", ")}`);
  if (action.reason) notes.push(action.reason);
  return el("li", { "data-state": action.state },
    el("code", {}, action.text), el("span", { class: `chip ${action.state}` }, action.state),
    notes.length ? el("span", { class: "muted" }, notes.join("; ")) : null);
}

function stepRow(step, index, plan) {
  const isNow = index === plan.steps_done && plan.is_in_motion;
  const state = index < plan.steps_done ? "done" : isNow ? "now" : "later";
  const word = plan.is_under_way ? "under way" : "next";
  const actions = isNow && plan.actions.length
    ? plan.actions.map(actionRow)
    : step.map((action) => el("li", {}, el("code", {}, action.text)));
  return el("details", { class: `step ${state}`, open: isNow },
    el("summary", {}, `Step ${index + 1}: ${plural(step.length, "action")}`,
      el("span", { class: "muted" }, { done: "done", now: word, later: "" }[state])),
    el("ul", {}, actions));
}

function buttons(plan) {
  if (!plan.is_in_motion) return null;
  if (!mayChange()) return el("p", { class: "muted" }, "Stop it with ", el("code", {}, "pubweave plan abort"), ".");
  const path = `/api/plan/${encodeURIComponent(plan.id)}`;
  const canPause = plan.state === "ready" || plan.state === "running";
  return el("p", { class: "buttons" },
    canPause ? el("button", { id: "pause", onclick: () => change(`${path}/pause`) }, "Pause after this step") : null,
    plan.state === "aborting" ? null
      : el("button", { id: "abort", class: "danger", onclick: () => change(`${path}/abort`) }, "Stop the plan"));
}

function remarks(plan) {
  const told = [];
  if (plan.purpose) told.push(plan.purpose);
  if (plan.reason) told.push(`given up: ${plan.reason}`);
  if (plan.is_in_motion && !plan.executor) told.push("nobody executes it: 'pubweave plan resume' goes on with it");
  if (plan.missing.length) told.push(`brokers that it waits for and that are not there: ${plan.missing.join(", ")}`);
  if (plan.by) told.push(`asked for by broker ${plan.by}`);
  return told.map((text) => el("p", { class: "muted" }, text));
}

export function showPlan(plan) {
  last = plan;
  show(byId("plan-body"), [plan, mayChange()], () => {
    if (!plan) return el("p", { class: "empty" }, "No plan was applied to this overlay yet.");
    const share = Math.round(plan.progress * 100);
    const bar = el("div", {
      class: `progress ${plan.state}`, role: "progressbar", "aria-label": "Progress of the plan",
      "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": share,
    }, el("div", {}));
    bar.firstChild.style.width = `${share}%`;
    return [
      el("p", { class: "headline", id: "plan-headline" }, el("strong", {}, headline(plan)), el("span", { class: "muted" }, plan.id)),
      bar, ...remarks(plan), buttons(plan),
      el("div", { class: "steps" }, plan.steps.map((step, index) => stepRow(step, index, plan))),
    ];
  });
}

whenAccessChanges(() => showPlan(last));
