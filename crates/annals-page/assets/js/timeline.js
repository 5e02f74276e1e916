// @ts-check
/**
 * The middle column: the conversation's head, its rows, and what is arriving below them.
 *
 * Row `n` is block `n + 1`, so the list needs to know nothing of the blocks it does not show. Rows after the last block
 * are what the model is producing right now; the durable block takes their place.
 */
import { pinned } from "./approvals.js";
import { costStrip } from "./strip.js";
import { actions } from "./actions.js";
import { count, plural } from "./format.js";
import { body, label, lane } from "./rows.js";
import * as state from "./state.js";
import { draw } from "./tree.js";
import { derived, effect, h, onCleanup, signal, untracked } from "./view.js";
import { WindowedList } from "./window.js";

const ROW_ESTIMATE_PX = 46;
/** Rows read beyond those that exist. */
const AHEAD_ROWS = 30;
/** How long the first trees of a text are waited for. */
const PLAIN_AFTER_MS = 400;

/** @type {WindowedList | null} */
let list = null;
/** Blocks that came while the reader was elsewhere. */
const unseen = signal(0);

export function timeline() {
  const canvas = h("div.canvas", { role: "feed", "aria-label": "Blocks", "aria-busy": () => String(state.turn.value.running) });
  const viewport = h("div.viewport", { tabindex: "0", "aria-label": "Blocks of the conversation", role: "group" }, canvas);
  const column = h("section.timeline", { "aria-label": "Timeline", hidden: () => state.current.value === null },
    head(),
    costStrip(),
    pinned(),
    h("div.list-area", null, viewport, () => (isEmpty.value ? emptyConversation() : null), newer()));
  list = new WindowedList({
    viewport, canvas, draw: drawRow, estimate: ROW_ESTIMATE_PX,
    onRange: (first, last) => state.blocks?.need(first + 1 - AHEAD_ROWS, last + 1 + AHEAD_ROWS, state.tail.peek()),
    onScroll: () => { if (list?.follows) unseen.value = 0; },
  });
  state.showOn({ redraw, appended, opened });
  followPosition();
  return column;
}

const isEmpty = derived(() => state.current.value !== null && !state.loading.value && state.tail.value === 0 && state.arriving.value.length === 0);

function emptyConversation() {
  return h("div.empty-state", null, h("h2", null, "Nothing here yet"), h("p", null, "Write below what you want done. Files can be dropped anywhere on this page."));
}

/** @param {number} first @param {number} last */
function redraw(first, last) {
  list?.redraw(first - 1, last - 1);
}

let drawnTail = 0;

function appended() {
  if (!list) return;
  const before = drawnTail;
  drawnTail = state.tail.peek();
  // What was arriving stood where the new blocks are now.
  list.redraw(before, Number.MAX_SAFE_INTEGER);
  list.resize(drawnTail + state.arriving.peek().length);
  if (list.follows && state.position.peek() === null) list.show(list.length - 1, "end");
  else unseen.value += Math.max(0, drawnTail - before);
}

function opened() {
  if (!list) return;
  unseen.value = 0;
  drawnTail = state.tail.peek();
  list.redraw(0, Number.MAX_SAFE_INTEGER);
  list.resize(drawnTail);
  const at = state.position.peek();
  if (at === null) list.show(list.length - 1, "end");
  else list.show(at - 1, "start");
}

function followPosition() {
  effect(() => {
    const at = state.position.value;
    untracked(() => {
      if (!list || state.current.peek() === null || state.tail.peek() === 0) return;
      if (at !== null) list.show(Math.min(at, state.tail.peek()) - 1, "nearest");
    });
  });
  effect(() => {
    const entries = state.arriving.value.length;
    untracked(() => list?.resize(state.tail.peek() + entries));
  });
}

/** @param {number} index */
function drawRow(index) {
  const seq = index + 1;
  const conversation = state.current.peek() ?? "";
  if (seq > state.tail.peek()) return provisional(state.arriving.peek()[seq - state.tail.peek() - 1]);
  const block = state.blocks?.get(seq);
  if (!block) return h("article.row.pending", { "data-seq": seq, "aria-label": `Block ${seq}`, "aria-busy": "true" }, h("span.seq", null, count(seq)), h("div.body", null, h("div.bone", null)));
  const isHere = () => state.moment.value === seq;
  return h("article", {
    class: () => `row lane-${lane(block)}${isHere() ? " here" : ""}${state.position.value !== null && seq > state.position.value ? " later" : ""}${startsStep(block) ? " step-start" : ""}`,
    "data-seq": seq, "data-type": block.type, "aria-label": label(block), "aria-posinset": seq, "aria-setsize": "-1",
    "aria-current": () => (isHere() ? "true" : null), tabindex: "-1",
    onClick: (/** @type {MouseEvent} */ event) => select(event, seq),
  }, h("span.seq", { "aria-hidden": "true" }, count(seq)), h("div.body", null, body(block, conversation)));
}

/** Whether a model call's blocks begin here. @param {import("./types.js").Block} block */
function startsStep(block) {
  return Boolean(block.meta?.usage);
}

/** @param {MouseEvent} event @param {number} seq */
function select(event, seq) {
  const target = /** @type {Element} */ (event.target);
  if (target.closest("button, a, pre, input, textarea") || String(getSelection() ?? "") !== "") return;
  state.goTo(seq);
}

const ARRIVING_NAMES = /** @type {Record<string, string>} */ ({ answer: "Annals", thinking: "thinking", canvas: "writing", timeline_text: "writing" });

/** @param {import("./state.js").Provisional | undefined} entry */
function provisional(entry) {
  if (!entry) return h("article.row.pending", null);
  return h("article", { class: `row arriving lane-${entry.channel === "answer" ? "answer" : "quiet"}`, "data-arriving": entry.channel, "aria-label": "Arriving" },
    h("span.seq", { "aria-hidden": "true" }, "…"),
    h("div.body", null, h("div.said", null,
      h("div.who", null, h("span", null, ARRIVING_NAMES[entry.channel] ?? entry.channel), entry.path ? h("code", null, entry.path) : null),
      entry.channel === "thinking" ? plainText(entry, "prose plain faint") : growing(entry))));
}

/** @param {import("./state.js").Provisional} entry @param {string} classes */
function plainText(entry, classes) {
  return h("div", { class: classes }, entry.text, h("span.caret", { "aria-hidden": "true" }));
}

/**
 * Prose as it arrives: parts that were drawn stay, only what changed is drawn again. Its words as they come stand in for
 * it where no trees do, such as code.
 * @param {import("./state.js").Provisional} entry
 */
function growing(entry) {
  const place = { conversation: state.current.peek() ?? "" };
  const drawn = h("div.prose", { hidden: () => entry.trees.value === null });
  /** @type {any[]} */
  let before = [];
  effect(() => {
    const trees = entry.trees.value ?? [];
    let same = 0;
    while (same < before.length && same < trees.length && before[same] === trees[same]) same += 1;
    while (drawn.childNodes.length > same) drawn.lastChild?.remove();
    drawn.append(...trees.slice(same).map((tree) => draw(tree, place)));
    before = trees;
  });
  // Markup would be seen as it is written if its words were shown at once.
  const isLate = signal(false);
  const timer = setTimeout(() => (isLate.value = true), PLAIN_AFTER_MS);
  onCleanup(() => clearTimeout(timer));
  return [drawn, () => (entry.trees.value === null && isLate.value ? plainText(entry, "prose plain") : null)];
}

function newer() {
  return h("div.newer", { "aria-live": "polite" }, () =>
    unseen.value > 0
      ? h("button.pill", { type: "button", onClick: () => { unseen.value = 0; state.goTo(null); list?.show(list.length - 1, "end"); } }, `${plural(unseen.value, "new block")} ↓`)
      : null);
}

function head() {
  return h("header.head", null,
    h("button.icon-button.only-narrow", { type: "button", "aria-label": "Show conversations", onClick: () => (state.pane.value = "list") }, "☰"),
    h("h1.title", null, () => (state.current.value ? state.nameOf({ id: state.current.value, title: state.title.value }) : "")),
    h("span.status", { role: "status" }, () => status()),
    h("div.head-actions", null, actions()),
    h("button.icon-button.only-medium", { type: "button", "aria-label": "Show inspector", onClick: () => (state.pane.value = state.pane.peek() === "inspector" ? "timeline" : "inspector") }, "◨"));
}

function status() {
  if (!state.connected.value) return h("span.chip.warn", null, "reconnecting");
  if (state.turn.value.waiting || state.approvals.value.length + state.questions.value.length > 0) return h("span.chip.warn", null, "waiting for you");
  if (state.turn.value.running) return h("span.chip.live", null, "running");
  return null;
}

/** Moves the keyboard's focus to the rows. */
export function focusRows() {
  /** @type {HTMLElement | null} */ (document.querySelector(".viewport"))?.focus({ preventScroll: true });
}
