// @ts-check
/**
 * The right column: one moment of the conversation, from seven sides.
 */
import * as api from "./api.js";
import { callPanel } from "./inspector/call.js";
import { filesPanel } from "./inspector/files.js";
import { modelView } from "./inspector/model_view.js";
import { planPanel, rawPanel, sandboxPanel, sourcesPanel } from "./inspector/facts.js";
import * as state from "./state.js";
import { derived, effect, h, signal, untracked } from "./view.js";

/** @typedef {{ conversation: string, at: number, facts: any, block: any }} Moment */

const PANELS = /** @type {Record<string, (moment: Moment) => Node | Node[] | null>} */ ({
  "Model's view": modelView,
  Call: callPanel,
  Files: filesPanel,
  Sources: sourcesPanel,
  Plan: planPanel,
  Sandbox: sandboxPanel,
  Raw: rawPanel,
});
const NAMES = Object.keys(PANELS);
const PAUSE_MS = 120;
const RUNNING_PAUSE_MS = 700;

/** @type {import("./view.js").Signal<Moment | null>} */
const read = signal(/** @type {Moment | null} */ (null));
const failed = signal("");

export function inspector() {
  followMoment();
  return h("aside.inspector", { "aria-label": "Inspector" },
    h("div.tabs-row", null, h("div.tabs", { role: "tablist", "aria-label": "Inspector", onKeydown: arrows }, NAMES.map(tabButton)),
      h("button.icon-button.only-medium.close", { type: "button", "aria-label": "Close inspector", onClick: () => (state.pane.value = "timeline") }, "×")),
    h("div.panel", { "data-at": () => read.value?.at ?? null, role: "tabpanel", id: "panel", "aria-labelledby": () => `tab-${NAMES.indexOf(state.tab.value)}`, tabindex: "0" }, () => panel()));
}

/** @param {string} name @param {number} index */
function tabButton(name, index) {
  const isOpen = () => state.tab.value === name;
  return h("button", { role: "tab", type: "button", id: `tab-${index}`, "aria-selected": () => String(isOpen()), "aria-controls": "panel", tabindex: () => (isOpen() ? "0" : "-1"), onClick: () => (state.tab.value = name) }, name);
}

/** Opens the tab of this number, from 1, and focuses it. @param {number} number */
export function openTab(number) {
  const name = NAMES[number - 1];
  if (!name || state.current.peek() === null) return;
  state.tab.value = name;
  state.pane.value = "inspector";
  document.getElementById(`tab-${number - 1}`)?.focus();
}

/** @param {KeyboardEvent} event */
function arrows(event) {
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (by === 0) return;
  event.preventDefault();
  const next = NAMES[(NAMES.indexOf(state.tab.peek()) + by + NAMES.length) % NAMES.length];
  state.tab.value = next;
  document.getElementById(`tab-${NAMES.indexOf(next)}`)?.focus();
}

const conversationNow = derived(() => state.current.value);

function panel() {
  if (conversationNow.value === null) return empty("Open a conversation to look into it.");
  if (failed.value) return h("p.sentence-error", null, failed.value);
  const moment = read.value;
  if (!moment) return empty(state.tail.value === 0 ? "Nothing has happened here yet." : "Reading.");
  return PANELS[state.tab.value]?.(moment) ?? null;
}

/** @param {string} text */
export function empty(text) {
  return h("p.empty", null, text);
}

let timer = 0;
let asked = 0;

function followMoment() {
  effect(() => {
    state.current.value;
    untracked(() => {
      read.value = null;
      failed.value = "";
    });
  });
  effect(() => {
    const at = state.moment.value;
    const id = state.current.value;
    clearTimeout(timer);
    if (id === null || at === 0) return;
    const pause = state.position.peek() === null && state.turn.peek().running ? RUNNING_PAUSE_MS : PAUSE_MS;
    timer = setTimeout(() => ask(id, at), read.peek() === null ? 0 : pause);
  });
}

/** @param {string} id @param {number} at */
async function ask(id, at) {
  const mine = (asked += 1);
  try {
    const [facts, block] = await Promise.all([api.get(api.conversation(id, `/moment?at=${at}`)), state.blocks?.fetch(at)]);
    if (mine !== asked || state.current.peek() !== id) return;
    failed.value = "";
    read.value = { conversation: id, at, facts, block };
  } catch (error) {
    if (mine === asked) failed.value = api.sentence(error);
  }
}
