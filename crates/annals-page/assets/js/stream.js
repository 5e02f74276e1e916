// @ts-check
/**
 * The live stream of one conversation: blocks without gap or repetition, and what the model is saying right now.
 *
 * Only blocks carry ids, so the browser resumes after the last durable one by itself; after a page is long hidden, or
 * when the browser gives up, the stream is opened again from the last block that was seen.
 */
import * as api from "./api.js";

const HIDDEN_MAX_MS = 60_000;
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 8000;

/**
 * @typedef {object} Listener
 * @property {(block: import("./types.js").Block) => void} block
 * @property {(delta: import("./types.js").Delta) => void} delta
 * @property {(drawn: import("./types.js").Drawn) => void} tree
 * @property {(said: import("./types.js").Progress) => void} progress
 * @property {(state: any) => void} state
 * @property {() => void} gap
 * @property {() => void} lost
 * @property {(connected: boolean) => void} connected
 */
export class Stream {
  /** @param {string} conversation @param {number} after @param {Listener} listener */
  constructor(conversation, after, listener) {
    this.conversation = conversation;
    this.after = after;
    this.listener = listener;
    this.retry = RETRY_FIRST_MS;
    /** @type {EventSource | null} */
    this.source = null;
    this.timer = 0;
    this.hidden = 0;
    this.seen = () => this.visibility();
    document.addEventListener("visibilitychange", this.seen);
    this.open();
  }

  open() {
    this.source?.close();
    const source = new EventSource(api.conversation(this.conversation, `/events?trees=true&after=${this.after}`));
    this.source = source;
    source.addEventListener("open", () => {
      this.retry = RETRY_FIRST_MS;
      this.listener.connected(true);
    });
    source.addEventListener("error", () => {
      this.listener.connected(false);
      // The browser tries again by itself after a broken connection, but not after an answer it did not like.
      if (source.readyState === EventSource.CLOSED) this.later();
    });
    this.on(source, "block", (block) => {
      if (block.seq <= this.after) return;
      this.after = block.seq;
      this.listener.block(block);
    });
    this.on(source, "delta", (delta) => this.listener.delta(delta));
    this.on(source, "tree", (drawn) => this.listener.tree(drawn));
    this.on(source, "progress", (said) => this.listener.progress(said));
    this.on(source, "state", (state) => this.listener.state(state));
    this.on(source, "gap", () => this.listener.gap());
    this.on(source, "lost", () => this.listener.lost());
  }

  /** @param {EventSource} source @param {string} name @param {(data: any) => void} work */
  on(source, name, work) {
    source.addEventListener(name, (event) => {
      if (this.source === source) work(JSON.parse(/** @type {MessageEvent} */ (event).data));
    });
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), this.retry);
    this.retry = Math.min(this.retry * 2, RETRY_MAX_MS);
  }

  visibility() {
    clearTimeout(this.hidden);
    if (document.hidden) {
      this.hidden = setTimeout(() => this.source?.close(), HIDDEN_MAX_MS);
    } else if (this.source?.readyState === EventSource.CLOSED) this.open();
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.hidden);
    document.removeEventListener("visibilitychange", this.seen);
    this.source?.close();
    this.source = null;
  }
}
