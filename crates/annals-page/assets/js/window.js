// @ts-check
/**
 * A windowed list: any number of rows, of which only those near the viewport exist.
 *
 * Heights are measured when a row is there and estimated until then. A Fenwick tree adds them up, so that finding the
 * row at a place and the place of a row takes logarithmic time. The reader's place is kept by an anchor: when rows
 * above it turn out taller or shorter, or something above the list takes room, the scroll position moves by the difference
 * and nothing on the screen does.
 */
import { root } from "./view.js";

/** Sums of heights. */
export class Heights {
  /** @param {number} estimate */
  constructor(estimate) {
    this.estimate = estimate;
    this.length = 0;
    this.capacity = 0;
    this.own = new Float64Array(0);
    this.tree = new Float64Array(1);
  }

  /** @param {number} length */
  resize(length) {
    if (length > this.capacity) this.grow(Math.max(length, this.capacity * 2, 1024));
    for (let index = this.length; index < length; index += 1) this.set(index, this.estimate);
    for (let index = length; index < this.length; index += 1) this.set(index, 0);
    this.length = length;
  }

  /** @param {number} capacity */
  grow(capacity) {
    const own = new Float64Array(capacity);
    own.set(this.own);
    const tree = new Float64Array(capacity + 1);
    for (let at = 1; at <= capacity; at += 1) {
      tree[at] += own[at - 1];
      const parent = at + (at & -at);
      if (parent <= capacity) tree[parent] += tree[at];
    }
    Object.assign(this, { own, tree, capacity });
  }

  /** @param {number} index @param {number} height */
  set(index, height) {
    const change = height - this.own[index];
    if (change === 0) return;
    this.own[index] = height;
    for (let at = index + 1; at <= this.capacity; at += at & -at) this.tree[at] += change;
  }

  /** The height of all rows before `index`. @param {number} index */
  before(index) {
    let sum = 0;
    for (let at = Math.min(index, this.capacity); at > 0; at -= at & -at) sum += this.tree[at];
    return sum;
  }

  total() {
    return this.before(this.length);
  }

  /** The row at this height from the top. @param {number} offset */
  at(offset) {
    let index = 0;
    let left = offset;
    for (let step = 1 << (31 - Math.clz32(Math.max(1, this.capacity))); step > 0; step >>= 1) {
      const next = index + step;
      if (next <= this.capacity && this.tree[next] <= left) {
        index = next;
        left -= this.tree[next];
      }
    }
    return Math.max(0, Math.min(index, this.length - 1));
  }
}

const OVERSCAN = 10;
/** A reader this near to the end follows it. */
const AT_END_PX = 48;
// Browsers stop laying out beyond some ten million pixels.
const CANVAS_MAX_PX = 8_000_000;

/**
 * @typedef {object} Options
 * @property {HTMLElement} viewport what scrolls
 * @property {HTMLElement} canvas its only child, which holds the rows
 * @property {(index: number) => HTMLElement} draw
 * @property {number} estimate
 * @property {(first: number, last: number) => void} [onRange]
 * @property {() => void} [onScroll]
 */
export class WindowedList {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.heights = new Heights(options.estimate);
    /** @type {Map<number, { made: HTMLElement, end: () => void }>} */
    this.rows = new Map();
    /** Rows that are drawn again with the next frame. @type {Set<number>} */
    this.stale = new Set();
    this.follows = true;
    /** @type {{ index: number, offset: number }} */
    this.anchor = { index: 0, offset: 0 };
    /** What scrolling the canvas by one pixel moves the rows by; above 1 only for very long lists. */
    this.scale = 1;
    this.settled = 0;
    this.queued = false;
    this.measuring = new ResizeObserver((entries) => this.measured(entries));
    this.edge = options.viewport.getBoundingClientRect().top;
    this.sizing = new ResizeObserver(() => this.resized());
    this.sizing.observe(options.viewport);
    this.listener = () => this.scrolled();
    options.viewport.addEventListener("scroll", this.listener, { passive: true });
  }

  close() {
    this.measuring.disconnect();
    this.sizing.disconnect();
    this.options.viewport.removeEventListener("scroll", this.listener);
    for (const index of [...this.rows.keys()]) this.drop(index);
  }

  get length() {
    return this.heights.length;
  }

  /** @param {number} length */
  resize(length) {
    for (const index of this.rows.keys()) if (index >= length) this.drop(index);
    this.heights.resize(length);
    this.soon();
  }

  /** Draws these rows again. Until then the old ones stand, so that there is never a hole. @param {number} first @param {number} last */
  redraw(first, last) {
    for (const index of this.rows.keys()) if (index >= first && index <= last) this.stale.add(index);
    this.soon();
  }

  /** Brings a row into view; `start` puts it near the top. @param {number} index @param {"start" | "nearest" | "end"} where */
  show(index, where) {
    const { viewport } = this.options;
    const height = viewport.clientHeight;
    if (where === "end") {
      this.follows = true;
    } else {
      const top = this.heights.before(index);
      const bottom = top + this.heights.own[index];
      const from = this.top();
      if (where === "nearest" && top >= from + 8 && bottom <= from + height - 8) return;
      this.follows = false;
      const lead = where === "start" ? Math.min(96, height / 4) : top < from ? 24 : Math.max(24, height - (bottom - top) - 24);
      this.anchor = { index, offset: -lead };
    }
    this.place();
  }

  /** Whether the reader is at the end. */
  isAtEnd() {
    return this.top() + this.options.viewport.clientHeight >= this.heights.total() - AT_END_PX;
  }

  /** The height above the viewport. */
  top() {
    return this.options.viewport.scrollTop * this.scale;
  }

  scrolled() {
    const { viewport } = this.options;
    // Moved by us: the anchor says more exactly where we are.
    if (Math.abs(viewport.scrollTop - this.settled) < 1) return;
    this.settled = viewport.scrollTop;
    const top = this.top();
    const index = this.heights.at(top);
    this.anchor = { index, offset: top - this.heights.before(index) };
    this.follows = this.isAtEnd();
    this.soon();
    this.options.onScroll?.();
  }

  soon() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.place();
    });
  }

  /** The viewport has another size, and another place if what stands above it grew or shrank. */
  resized() {
    const edge = this.options.viewport.getBoundingClientRect().top;
    if (!this.follows) this.anchor.offset += edge - this.edge;
    this.edge = edge;
    this.place();
  }

  /** @param {ResizeObserverEntry[]} entries */
  measured(entries) {
    let changed = false;
    for (const entry of entries) {
      const row = /** @type {HTMLElement} */ (entry.target);
      const index = Number(row.dataset.index);
      if (this.rows.get(index)?.made !== row) continue;
      const height = row.offsetHeight;
      if (height !== this.heights.own[index]) {
        this.heights.set(index, height);
        changed = true;
      }
    }
    if (changed) this.place();
  }

  /** Puts everything where it belongs: the canvas, the scroll position, the rows. */
  place() {
    const { viewport, canvas } = this.options;
    const height = viewport.clientHeight;
    if (height === 0) return;
    for (const index of [...this.stale]) this.drop(index);
    for (let round = 0; round < 3; round += 1) {
      const total = this.heights.total();
      const furthest = Math.max(0, total - height);
      const tall = Math.min(total, CANVAS_MAX_PX);
      this.scale = tall > height && total > tall ? furthest / (tall - height) : 1;
      canvas.style.height = `${Math.ceil(tall)}px`;
      let top = this.heights.before(this.anchor.index) + this.anchor.offset;
      if (this.follows) top = furthest;
      top = Math.max(0, Math.min(top, furthest));
      const wanted = top / this.scale;
      if (Math.abs(viewport.scrollTop - wanted) >= 1) viewport.scrollTop = wanted;
      this.settled = viewport.scrollTop;
      if (!this.fill(top, height)) break;
    }
  }

  /** Makes the rows of a range; whether their heights were other than thought. @param {number} top @param {number} height */
  fill(top, height) {
    if (this.length === 0) {
      for (const index of [...this.rows.keys()]) this.drop(index);
      return false;
    }
    const first = Math.max(0, this.heights.at(top) - OVERSCAN);
    const last = Math.min(this.length - 1, this.heights.at(top + height) + OVERSCAN);
    const focused = document.activeElement?.closest?.("[data-index]");
    for (const index of [...this.rows.keys()]) {
      if ((index < first || index > last) && this.rows.get(index)?.made !== focused) this.drop(index);
    }
    /** @type {number[]} */
    const fresh = [];
    for (let index = first; index <= last; index += 1) {
      if (this.rows.has(index)) continue;
      this.make(index);
      fresh.push(index);
    }
    this.options.onRange?.(first, last);
    const changed = this.settleHeights(fresh);
    const shift = top - top / this.scale;
    for (const [index, row] of this.rows) {
      row.made.style.transform = `translateY(${Math.round(this.heights.before(index) - shift)}px)`;
    }
    return changed;
  }

  /** @param {number[]} fresh */
  settleHeights(fresh) {
    let changed = false;
    for (const index of fresh) {
      const height = this.rows.get(index)?.made.offsetHeight ?? 0;
      if (height !== this.heights.own[index]) {
        this.heights.set(index, height);
        changed = true;
      }
    }
    return changed;
  }

  /** @param {number} index */
  make(index) {
    const row = root(() => this.options.draw(index));
    row.made.dataset.index = String(index);
    // Not by a class: what draws the row may set its classes again.
    Object.assign(row.made.style, { position: "absolute", left: "0", right: "0", top: "0" });
    this.rows.set(index, row);
    // In reading order, so that screen readers and Tab meet them so.
    let after = null;
    for (const other of this.options.canvas.children) {
      if (Number(/** @type {HTMLElement} */ (other).dataset.index) > index) {
        after = other;
        break;
      }
    }
    this.options.canvas.insertBefore(row.made, after);
    this.measuring.observe(row.made);
  }

  /** @param {number} index */
  drop(index) {
    const row = this.rows.get(index);
    if (!row) return;
    this.rows.delete(index);
    this.stale.delete(index);
    this.measuring.unobserve(row.made);
    row.end();
    row.made.remove();
  }
}
