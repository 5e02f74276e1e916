// @ts-check
/**
 * What the page shows: the conversations, the open one, the position in it, and what is arriving.
 */
import * as api from "./api.js";
import { Blocks, PROSE } from "./blocks.js";
import { firstLine } from "./format.js";
import { Stream } from "./stream.js";
import { batch, derived, signal } from "./view.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Delta} Delta */
/** @typedef {import("./types.js").Drawn} Drawn */
/** @typedef {import("./types.js").Progress} Progress */
/**
 * What is arriving. `trees` are its parts as the server drew them; null until the first have come.
 * @typedef {{ key: string, channel: string, path: string, text: import("./view.js").Signal<string>, trees: import("./view.js").Signal<any[] | null>, step: number }} Provisional
 */

/** @type {import("./view.js").Signal<import("./types.js").Summary[]>} */
export const conversations = signal(/** @type {any[]} */ ([]));
/** @type {import("./view.js").Signal<string | null>} */
export const current = signal(/** @type {string | null} */ (null));
/** The position: a block, or null for now. @type {import("./view.js").Signal<number | null>} */
export const position = signal(/** @type {number | null} */ (null));
/** The last block. */
export const tail = signal(0);
export const title = signal("");
/** @type {import("./view.js").Signal<{ running: boolean, turn: string | null, waiting: boolean }>} */
export const turn = signal({ running: false, turn: /** @type {string | null} */ (null), waiting: false });
export const connected = signal(true);
export const loading = signal(false);
/** A sentence about what went wrong, until something works. */
export const trouble = signal("");
/** @type {import("./view.js").Signal<Provisional[]>} */
export const arriving = signal(/** @type {Provisional[]} */ ([]));
/** Calls whose tool runs. @type {import("./view.js").Signal<Set<string>>} */
export const runningCalls = signal(/** @type {Set<string>} */ (new Set()));
/** How far the running calls have come, as far as their tools say. @type {import("./view.js").Signal<Map<string, Progress>>} */
export const progress = signal(/** @type {Map<string, Progress>} */ (new Map()));
/** @type {import("./view.js").Signal<any[]>} */
export const approvals = signal(/** @type {any[]} */ ([]));
/** @type {import("./view.js").Signal<any[]>} */
export const questions = signal(/** @type {any[]} */ ([]));
/** Where we look: the position, or the last block. */
export const moment = derived(() => position.value ?? tail.value);
/** What is open right of the timeline on a narrow screen. */
export const pane = signal(/** @type {"timeline" | "list" | "inspector"} */ ("timeline"));
export const tab = signal("Model's view");
/** The file that the inspector shows. */
export const openFile = signal(/** @type {{ path: string, seq: number | null } | null} */ (null));

/** Trees of conversations that are looked at beside the open one. @type {Map<string, Map<number, any>>} */
export const otherTrees = new Map();

/** @type {Blocks | null} */
export let blocks = null;
/** @type {Stream | null} */
let stream = null;
/** @type {{ redraw(first: number, last: number): void, appended(): void, opened(): void }} */
let screen = { redraw() {}, appended() {}, opened() {} };

/** @param {typeof screen} own */
export function showOn(own) {
  screen = own;
}

/** @param {unknown} error */
export function fail(error) {
  trouble.value = api.sentence(error);
}

export async function readConversations() {
  try {
    const { items } = await api.get("/v1/conversations?limit=200");
    conversations.value = items;
    if (trouble.peek()) trouble.value = "";
    void readNames(items);
  } catch (error) {
    fail(error);
  }
}

/** What conversations without a title began with. @type {import("./view.js").Signal<Map<string, string>>} */
const beginnings = signal(new Map());
const NAMED_MAX = 30;
const NAME_CHARS = 60;

/** Names for conversations that have none: their first prompts. @param {import("./types.js").Summary[]} items */
async function readNames(items) {
  const unnamed = items.slice(0, NAMED_MAX).filter((item) => !item.title && item.blocks > 0 && !beginnings.peek().has(item.id));
  for (const { id } of unnamed) {
    const { items: first } = await api.get(api.conversation(id, "/blocks?after=0&limit=4")).catch(() => ({ items: [] }));
    const prompt = first.find((/** @type {Block} */ block) => block.type === "user.prompt");
    if (prompt?.text) beginnings.value = new Map([...beginnings.peek(), [id, firstLine(prompt.text, NAME_CHARS)]]);
  }
}

/** What a conversation is called. @param {{ id: string, title?: string | null }} item */
export function nameOf(item) {
  return item.title || beginnings.value.get(item.id) || item.id;
}

/** Opens a conversation at a position. @param {string | null} id @param {number | null} at */
export async function open(id, at) {
  if (id === current.peek()) {
    position.value = at;
    return;
  }
  stream?.close();
  blocks?.close();
  [stream, blocks] = [null, null];
  batch(() => {
    current.value = id;
    position.value = at;
    tail.value = 0;
    title.value = "";
    arriving.value = [];
    approvals.value = [];
    questions.value = [];
    runningCalls.value = new Set();
    progress.value = new Map();
    turn.value = { running: false, turn: null, waiting: false };
    openFile.value = null;
    trouble.value = "";
    loading.value = id !== null;
  });
  if (id !== null) await begin(id);
}

/** @param {string} id */
async function begin(id) {
  try {
    const info = await api.get(api.conversation(id));
    if (current.peek() !== id) return;
    blocks = new Blocks(id, (first, last) => screen.redraw(first, last), fail);
    batch(() => {
      title.value = info.title ?? "";
      tail.value = info.blocks ?? 0;
      turn.value = turnOf(info.turn);
      loading.value = false;
    });
    screen.opened();
    stream = new Stream(id, tail.peek(), { block: arrived, delta: heard, tree: drawn, progress: progressed, state: stated, gap: missed, lost, connected: linked });
    void readWaiting();
  } catch (error) {
    if (current.peek() !== id) return;
    loading.value = false;
    fail(error);
  }
}

/** @param {boolean} isUp */
function linked(isUp) {
  batch(() => {
    connected.value = isUp;
    // What was arriving is sent again, whole, with the first events of a connection.
    if (!isUp) arriving.value = [];
    else trouble.value = "";
  });
  if (isUp) blocks?.retry();
}

/** @param {Block} block */
function arrived(block) {
  batch(() => {
    blocks?.put(block);
    tail.value = Math.max(tail.peek(), block.seq);
    settle(block);
    if (block.type === "turn.header") turn.value = turnOf({ state: "running", turn_id: block.turn_id });
    if (block.type === "react.completion") {
      turn.value = turnOf(null);
      arriving.value = [];
      runningCalls.value = new Set();
      progress.value = new Map();
    }
    if (/^(approval|input)\./.test(block.type)) void readWaiting();
    if (block.type === "stage.gate") refreshTitle();
  });
  screen.appended();
  if (block.type === "user.prompt" || block.type === "react.completion") readConversations();
}

const SETTLED_BY = new Map([
  ["react.thinking", ["thinking"]],
  ["react.notes", ["answer", "timeline_text"]],
  ["assistant.completion", ["answer", "thinking"]],
  ["react.tool.call", ["answer", "thinking", "canvas", "timeline_text"]],
]);

/** The durable block takes the place of what was arriving. @param {Block} block */
function settle(block) {
  const gone = SETTLED_BY.get(block.type);
  // Until its own trees are read, the block is shown as it was seen arriving.
  const seen = block.text ? arriving.peek().find((entry) => entry.channel === "answer")?.trees.peek() : null;
  if (gone?.includes("answer") && seen && PROSE.has(block.mime)) blocks?.trees.set(block.seq, seen);
  if (gone) arriving.value = arriving.peek().filter((entry) => !gone.includes(entry.channel));
  if (block.type === "react.tool.result" && block.call_id && runningCalls.peek().has(block.call_id)) {
    const rest = new Set(runningCalls.peek());
    rest.delete(block.call_id);
    runningCalls.value = rest;
    const others = new Map(progress.peek());
    others.delete(block.call_id);
    progress.value = others;
  }
}

/** @param {Delta | Drawn} piece */
function keyOf(piece) {
  return `${piece.turn_id}/${piece.step}/${piece.channel}/${piece.path ?? ""}`;
}

/** @param {Drawn} piece */
function drawn(piece) {
  const known = arriving.peek().find((entry) => entry.key === keyOf(piece));
  if (known) known.trees.value = [...(known.trees.peek() ?? []).slice(0, piece.keep), ...piece.trees];
}

/** @param {Delta} delta */
function heard(delta) {
  const key = keyOf(delta);
  const known = arriving.peek().find((entry) => entry.key === key);
  if (known) {
    // From 0 on it is the whole text so far, for a reader that came late.
    known.text.value = delta.from === 0 ? delta.text : known.text.peek() + delta.text;
    return;
  }
  const entry = { key, channel: delta.channel, path: delta.path ?? "", step: delta.step, text: signal(delta.text), trees: signal(/** @type {any[] | null} */ (null)) };
  arriving.value = [...arriving.peek(), entry];
  screen.appended();
}

/** A call that says how far it has come runs, also for a reader that came after it began. @param {Progress} said */
function progressed(said) {
  batch(() => {
    if (!runningCalls.peek().has(said.call_id)) runningCalls.value = new Set([...runningCalls.peek(), said.call_id]);
    progress.value = new Map([...progress.peek(), [said.call_id, said]]);
  });
}

/** @param {{ state: string, turn_id?: string, call_id?: string }} said */
function stated(said) {
  batch(() => {
    if (said.call_id) {
      runningCalls.value = new Set([...runningCalls.peek(), said.call_id]);
      return;
    }
    if (said.state === "restarted") {
      arriving.value = [];
      return;
    }
    turn.value = turnOf(said);
    if (!turn.peek().running) arriving.value = [];
  });
}

/** @param {{ state: string, turn_id?: string } | null | undefined} said */
function turnOf(said) {
  const waiting = said?.state === "waiting";
  const running = waiting || said?.state === "running" || said?.state === "queued";
  return { running, turn: running ? (said?.turn_id ?? null) : null, waiting };
}

/** Deltas were dropped: what is shown of the answer would have a hole. */
function missed() {
  arriving.value = [];
}

/** The store has lost blocks that are shown: the conversation is read again, as it is now. */
function lost() {
  const id = current.peek();
  if (!id) return;
  stream?.close();
  blocks?.close();
  [stream, blocks] = [null, null];
  batch(() => {
    position.value = null;
    tail.value = 0;
    arriving.value = [];
    runningCalls.value = new Set();
    loading.value = true;
  });
  void begin(id);
}

async function refreshTitle() {
  const id = current.peek();
  if (!id) return;
  const info = await api.get(api.conversation(id)).catch(() => null);
  if (info && current.peek() === id) title.value = info.title ?? "";
}

/** Reads what waits for a person in the open conversation. */
export async function readWaiting() {
  const id = current.peek();
  if (!id) return;
  const read = (/** @type {string} */ path) => api.get(path).catch(() => ({ items: [] }));
  const [asked, wanted] = await Promise.all([read("/v1/approvals"), read("/v1/inputs")]);
  if (current.peek() !== id) return;
  const isHere = (/** @type {any} */ item) => item.conversation === id;
  batch(() => {
    approvals.value = asked.items.filter(isHere);
    // A card that stands keeps what was entered.
    const open = wanted.items.filter(isHere);
    const idsOf = (/** @type {any[]} */ items) => items.map((item) => item.input_id).join();
    if (idsOf(open) !== idsOf(questions.peek())) questions.value = open;
  });
}

/** The conversation whose opening is for writing in it. @type {string | null} */
export let toWriteIn = null;

/** @param {string | null} id */
export function writeIn(id) {
  toWriteIn = id;
}

/** Moves the position. @param {number | null} seq */
export function goTo(seq) {
  const id = current.peek();
  if (!id) return;
  const at = seq !== null && seq >= tail.peek() ? null : seq;
  location.hash = at === null ? `#/c/${id}` : `#/c/${id}@${at}`;
}

/** @returns {Map<string, string>} */
export function titlesById() {
  return new Map(conversations.value.map((item) => [item.id, nameOf(item)]));
}

/** The tree of a block, if it was read. @param {string} conversation @param {number} seq */
export function treeOf(conversation, seq) {
  return conversation === current.peek() ? blocks?.tree(seq) : otherTrees.get(conversation)?.get(seq);
}
