// Asking the server for a change: with the token, which is asked for once per tab.

import { byId } from "./dom.js";

const KEY = "pubweave-token";
let isReadOnly = true;
const listeners = [];

export function mayChange() {
  return !isReadOnly;
}

export function whenAccessChanges(listener) {
  listeners.push(listener);
}

export async function showAccess() {
  try {
    const answer = await fetch("/api/access");
    isReadOnly = (await answer.json()).is_read_only;
  } catch {
    return; // the server is away: asked again when it is back
  }
  byId("access").textContent = isReadOnly
    ? "Read-only: start the dashboard with --token-file to approve and stop plans here."
    : "Approving and stopping plans needs the token.";
  byId("forget-token").hidden = isReadOnly || !sessionStorage.getItem(KEY);
  for (const listener of listeners) listener();
}

function askForToken(problem) {
  const dialog = byId("token-dialog");
  const input = byId("token");
  byId("token-error").textContent = problem;
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(input.value.trim() || null), { once: true });
  });
}

export function say(text, isError = false) {
  const toast = byId("toast");
  toast.textContent = text;
  toast.classList.toggle("error", isError);
  toast.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => toast.classList.remove("shown"), isError ? 9000 : 5000);
}

export async function change(path) {
  let problem = "";
  for (;;) {
    const token = sessionStorage.getItem(KEY) ?? await askForToken(problem);
    if (!token) return;
    let answer, told;
    try {
      answer = await fetch(path, { method: "POST", headers: { Authorization: `Bearer ${token}` } });
      told = await answer.json();
    } catch {
      say("The dashboard does not answer; nothing was asked for.", true);
      return;
    }
    if (answer.status === 401) {
      sessionStorage.removeItem(KEY);
      problem = "That token was not right.";
      continue;
    }
    sessionStorage.setItem(KEY, token);
    byId("forget-token").hidden = false;
    say(told.done ?? told.error, !answer.ok);
    return;
  }
}

byId("token-cancel").addEventListener("click", () => {
  byId("token").value = "";
  byId("token-dialog").close();
});
byId("token-dialog").addEventListener("cancel", () => { byId("token").value = ""; });
byId("forget-token").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  byId("forget-token").hidden = true;
  say("The token is forgotten.");
});
