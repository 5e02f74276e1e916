// @ts-check
/**
 * Two conversations side by side, from where they part.
 */
import * as api from "./api.js";
import { count, plural } from "./format.js";
import { body, lane } from "./rows.js";
import * as state from "./state.js";
import { h, signal } from "./view.js";

const SHOWN_BLOCKS = 200;
/** @type {import("./view.js").Signal<string | null>} */
const other = signal(/** @type {string | null} */ (null));
/** @type {import("./view.js").Signal<any>} */
const read = signal(/** @type {any} */ (null));

export function compareDialog() {
  return h("dialog.compare", { "aria-label": "Compare two conversations", onClose: () => { other.value = null; read.value = null; } },
    h("header", null, h("h2", null, "Compare"), picker(), h("button.quiet", { type: "button", onClick: close }, "Close")),
    () => columns());
}

function dialog() {
  return /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog.compare"));
}

export function openCompare() {
  dialog()?.showModal();
}

function close() {
  dialog()?.close();
}

function picker() {
  return h("select", { "aria-label": "Other conversation", onChange: (/** @type {any} */ event) => choose(event.target.value) },
    () => [
      h("option", { value: "" }, "Choose the other one"),
      state.conversations.value.filter((item) => item.id !== state.current.value).map((item) => h("option", { value: item.id }, item.title ? `${item.title} (${item.id})` : item.id)),
    ]);
}

/** @param {string} id */
async function choose(id) {
  other.value = id || null;
  read.value = null;
  const mine = state.current.peek();
  if (!id || mine === null) return;
  try {
    const [left, right] = await Promise.all([whole(mine), whole(id)]);
    let same = 0;
    while (same < left.length && same < right.length && isSame(left[same], right[same])) same += 1;
    await readTrees(id, same);
    read.value = { same, left: left.slice(same), right: right.slice(same), names: [mine, id] };
  } catch (error) {
    state.fail(error);
  }
}

/** Trees of the other conversation, from where the two part. @param {string} id @param {number} after */
async function readTrees(id, after) {
  const { items } = await api.get(api.conversation(id, `/trees?after=${after}&limit=${SHOWN_BLOCKS}`)).catch(() => ({ items: [] }));
  state.otherTrees.set(id, new Map(items.map((/** @type {any} */ item) => [item.seq, item.tree])));
}

/** @param {any} a @param {any} b */
function isSame(a, b) {
  return a.type === b.type && a.text === b.text && a.path === b.path && a.turn_id === b.turn_id && a.blob?.digest === b.blob?.digest;
}

/** @param {string} id */
async function whole(id) {
  const blocks = [];
  for (let after = 0; ; ) {
    const { items } = await api.get(api.conversation(id, `/blocks?after=${after}&limit=500`));
    blocks.push(...items);
    if (items.length < 500) return blocks;
    after = items[items.length - 1].seq;
  }
}

function columns() {
  const found = read.value;
  if (!found) return h("p.empty", null, other.value ? "Reading both." : "Forks share their blocks up to where they part; this shows what comes after.");
  const titles = state.titlesById();
  const column = (/** @type {string} */ id, /** @type {any[]} */ blocks) =>
    h("section.compare-column", { "aria-label": titles.get(id) ?? id },
      h("h3", null, titles.get(id) ?? id, h("span.faint", null, ` ${plural(blocks.length, "block")} of its own`)),
      h("div.scroll", { tabindex: "0", role: "group", "aria-label": "Blocks" },
        blocks.slice(0, SHOWN_BLOCKS).map((block) => h("article", { class: `row lane-${lane(block)}` }, h("span.seq", null, count(block.seq)), h("div.body", null, body(block, id)))),
        blocks.length > SHOWN_BLOCKS ? h("p.note", null, `${plural(blocks.length - SHOWN_BLOCKS, "more block")} not shown.`) : null));
  return h("div", null,
    h("p.note", null, found.same > 0 ? `The first ${plural(found.same, "block")} are the same.` : "They share no block."),
    h("div.compare-columns", null, column(found.names[0], found.left), column(found.names[1], found.right)));
}
