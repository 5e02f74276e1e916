// @ts-check
/**
 * The blocks of one conversation, read page by page as they come into view.
 *
 * A block never changes, so what was read stays valid for ever; the oldest pages are given up when there are many.
 */
import * as api from "./api.js";

/** @typedef {import("./types.js").Block} Block */
/** @typedef {import("./types.js").Tree} Tree */

const PAGE_BLOCKS = 100;
const PAGES_MAX = 80;
const TREES_AWAITED_MS = 60;
/** Types whose texts are drawn from a tree. */
export const PROSE = new Set(["text/markdown"]);

export class Blocks {
  /** @param {string} conversation @param {(first: number, last: number) => void} onRead @param {(error: unknown) => void} onError */
  constructor(conversation, onRead, onError) {
    this.conversation = conversation;
    this.onRead = onRead;
    this.onError = onError;
    /** @type {Map<number, Map<number, Block>>} page → seq → block, the last used page last */
    this.pages = new Map();
    /** Null where the server makes none. @type {Map<number, Tree | null>} */
    this.trees = new Map();
    /** @type {Map<number, Promise<void>>} */
    this.asked = new Map();
    /** @type {[number, number][]} ranges whose trees could not be read */
    this.missed = [];
    this.closed = new AbortController();
  }

  close() {
    this.closed.abort();
  }

  /** @param {number} seq @returns {Block | undefined} */
  get(seq) {
    return this.pages.get(pageOf(seq))?.get(seq);
  }

  /** @param {number} seq @returns {Tree | null | undefined} */
  tree(seq) {
    return this.trees.get(seq);
  }

  /** Whether a block's text will be drawn from a tree that is not here yet. @param {Block} block */
  awaitsTree(block) {
    return PROSE.has(block.mime) && Boolean(block.text) && !this.trees.has(block.seq);
  }

  /** A block that came with the stream. @param {Block} block */
  put(block) {
    const page = pageOf(block.seq);
    const known = this.pages.get(page) ?? new Map();
    known.set(block.seq, block);
    this.pages.set(page, known);
    // What was said of this number before there was such a block says nothing of it.
    if (this.trees.get(block.seq) === null) this.trees.delete(block.seq);
    if (this.awaitsTree(block)) void this.readTrees(block.seq, block.seq);
  }

  /** Reads what is missing of a range. @param {number} first @param {number} last @param {number} tail */
  need(first, last, tail) {
    const end = Math.min(last, tail);
    for (let page = pageOf(Math.max(1, first)); page <= pageOf(end); page += 1) {
      if (this.asked.has(page) || this.isWhole(page, tail)) continue;
      const reading = this.read(page).finally(() => this.asked.delete(page));
      this.asked.set(page, reading);
    }
  }

  /** One block, read if need be. @param {number} seq @returns {Promise<Block | undefined>} */
  async fetch(seq) {
    if (!this.get(seq)) {
      const page = pageOf(seq);
      const reading = this.asked.get(page) ?? this.read(page).finally(() => this.asked.delete(page));
      this.asked.set(page, reading);
      await reading;
    }
    return this.get(seq);
  }

  /** @param {number} page @param {number} tail */
  isWhole(page, tail) {
    const known = this.pages.get(page);
    if (!known) return false;
    const from = page * PAGE_BLOCKS + 1;
    return known.size >= Math.min(tail, from + PAGE_BLOCKS - 1) - from + 1;
  }

  /** @param {number} page */
  async read(page) {
    const after = page * PAGE_BLOCKS;
    try {
      const path = api.conversation(this.conversation, `/blocks?after=${after}&limit=${PAGE_BLOCKS}`);
      // A text that is drawn twice moves; one that is drawn late is missed. The first ones are drawn at once.
      const isFirst = this.pages.size === 0;
      const trees = isFirst ? null : this.readTrees(after + 1, after + PAGE_BLOCKS);
      const { items } = await api.get(path, this.closed.signal);
      if (trees) await Promise.race([trees, pause(TREES_AWAITED_MS)]);
      const known = this.pages.get(page) ?? new Map();
      for (const block of items) known.set(block.seq, block);
      this.pages.delete(page);
      this.pages.set(page, known);
      this.giveUp();
      this.onRead(after + 1, after + PAGE_BLOCKS);
      if (isFirst) void this.readTrees(after + 1, after + items.length);
    } catch (error) {
      if (!this.closed.signal.aborted) this.onError(error);
    }
  }

  giveUp() {
    for (const page of this.pages.keys()) {
      if (this.pages.size <= PAGES_MAX) return;
      for (const seq of this.pages.get(page)?.keys() ?? []) this.trees.delete(seq);
      this.pages.delete(page);
    }
  }

  /** Markdown and code as trees, for a range. @param {number} first @param {number} last */
  async readTrees(first, last) {
    if (last < first) return;
    try {
      const path = api.conversation(this.conversation, `/trees?after=${first - 1}&limit=${last - first + 1}`);
      const { items } = await api.get(path, this.closed.signal);
      for (const item of items) this.trees.set(item.seq, item.tree);
      for (let seq = first; seq <= last; seq += 1) if (!this.trees.has(seq)) this.trees.set(seq, null);
      if (this.pages.has(pageOf(first))) this.onRead(first, last);
    } catch {
      // Without its tree a text is shown as it was written, until the server can be asked again.
      this.missed.push([first, last]);
    }
  }

  /** Reads what could not be read while the server was away. */
  retry() {
    for (const [first, last] of this.missed.splice(0)) void this.readTrees(first, last);
  }
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** @param {number} seq */
function pageOf(seq) {
  return Math.floor((seq - 1) / PAGE_BLOCKS);
}
