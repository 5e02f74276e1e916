// @ts-check
/**
 * The keyboard: every key in one table, which is also what `?` shows.
 */
import { forkHere } from "./actions.js";
import { focusBox, stop } from "./composer.js";
import { openTab } from "./inspector.js";
import * as state from "./state.js";
import { focusRows } from "./timeline.js";
import { h } from "./view.js";

/** @type {[string, string, (event: KeyboardEvent) => void][]} */
const KEYS = [
  ["/", "search", () => /** @type {HTMLElement | null} */ (document.querySelector("input[type=search]"))?.focus()],
  ["j", "next block", () => move(1)],
  ["k", "previous block", () => move(-1)],
  ["g", "first block", () => state.goTo(1)],
  ["G", "now", () => state.goTo(null)],
  ["f", "fork here", () => void forkHere()],
  ["m", "write a message", () => focusBox()],
  ["a", "what waits for your decision", () => /** @type {HTMLElement | null} */ (document.querySelector(".pinned .approval"))?.focus()],
  ["1–7", "tabs of the inspector", (event) => openTab(Number(event.key))],
  ["Escape", "stop the running turn; else back to the blocks of now", () => void escape()],
  ["?", "all keys", () => dialog()?.showModal()],
];

/** @param {number} by */
function move(by) {
  const next = state.moment.peek() + by;
  if (next >= 1 && next <= state.tail.peek()) state.goTo(next);
}

function escape() {
  if (state.turn.peek().running) return stop();
  if (state.pane.peek() !== "timeline") state.pane.value = "timeline";
  else if (state.position.peek() !== null) state.goTo(null);
  focusRows();
}

function dialog() {
  return /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog.keys"));
}

export function keysDialog() {
  document.addEventListener("annals-keys", () => dialog()?.showModal());
  document.addEventListener("keydown", pressed);
  return h("dialog.keys", { "aria-label": "Keys" },
    h("h2", null, "Keys"),
    h("dl", null, KEYS.map(([key, what]) => h("div", null, h("dt", null, h("kbd", null, key === "Escape" ? "Esc" : key)), h("dd", null, what)))),
    h("p.note", null, "Enter sends, Shift+Enter begins a new line."),
    h("button.secondary", { type: "button", onClick: () => dialog()?.close() }, "Close"));
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const isTyping = target.matches("textarea, select, input:not([type=range]):not([type=checkbox])");
  if (isTyping && event.key !== "Escape") return;
  const known = KEYS.find(([key]) => key === event.key || (key === "1–7" && /^[1-7]$/.test(event.key)));
  if (!known) return;
  event.preventDefault();
  known[2](event);
}
