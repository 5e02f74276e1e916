// @ts-check
/**
 * The strip above the rows: what each model call cost, along the conversation, and the position slider below it.
 *
 * The plot and the slider share one scale, the block's number: what stands above the slider's thumb is what was spent
 * there. Compactions, prunes, hides and cache breaks are marks on it.
 */
import * as api from "./api.js";
import { cost, prices } from "./cost.js";
import { count, money, plural, short } from "./format.js";
import * as state from "./state.js";
import { derived, effect, h, signal, untracked } from "./view.js";

/** @typedef {{ turn_id: string, step: number, at: number, seq: number, usage: import("./types.js").Usage | null, marks: { kind: string, seq: number }[], lost_tokens?: number }} Step */

/** @type {import("./view.js").Signal<Step[]>} */
export const steps = signal(/** @type {Step[]} */ ([]));
const HEIGHT = 34;
const BUCKETS_MAX = 240;
let asked = 0;

/** Reads what is new since the last model call that is known. */
async function read() {
  const id = state.current.peek();
  if (id === null) return;
  const mine = (asked += 1);
  const known = steps.peek();
  const after = known.length > 0 ? known[known.length - 1].seq : 0;
  try {
    const answer = await api.get(api.conversation(id, `/steps?after=${after}`));
    if (mine !== asked || state.current.peek() !== id) return;
    prices.value = new Map([...prices.peek(), ...Object.entries(answer.prices ?? {})]);
    if (answer.items.length > 0) steps.value = [...known, ...answer.items];
  } catch {
    // The strip is an extra; the rows say the same.
  }
}

export function costStrip() {
  effect(() => {
    state.current.value;
    untracked(() => {
      steps.value = [];
      prices.value = new Map();
    });
  });
  effect(() => {
    const running = state.turn.value.running;
    if (state.current.value !== null && state.tail.value > 0 && !state.loading.value) untracked(() => later(running ? 400 : 0));
  });
  return h("div.strip", { hidden: () => state.tail.value === 0 },
    h("div.strip-facts", null, () => sums()),
    h("div.plot-area", null, markRow(), () => plot(), slider()));
}

let timer = 0;

/** @param {number} ms */
function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(read, ms);
}

// As of the position, like everything else.
const total = derived(() => {
  const sum = { input: 0, read: 0, write: 0, output: 0, cost: 0, priced: false, calls: 0 };
  for (const step of steps.value) {
    if (step.seq > state.moment.value || !step.usage) continue;
    sum.calls += 1;
    sum.input += step.usage.input_tokens;
    sum.read += step.usage.cache_read_tokens;
    sum.write += step.usage.cache_write_tokens;
    sum.output += step.usage.output_tokens;
    const price = prices.value.get(step.turn_id);
    if (price) {
      sum.priced = true;
      sum.cost += cost(step.usage, price);
    }
  }
  return sum;
});

function sums() {
  const sum = total.value;
  const fresh = sum.input - sum.read - sum.write;
  const share = sum.input > 0 ? Math.round((sum.read / sum.input) * 100) : 0;
  const fact = (/** @type {string} */ kind, /** @type {number} */ value, /** @type {string} */ name) =>
    h("span.fact", { title: `${count(value)} tokens` }, h("span", { class: `dot ${kind}` }), `${short(value)} ${name}`);
  return [
    fact("read", sum.read, "read"), fact("write", sum.write, "written"), fact("fresh", fresh, "uncached"), fact("out", sum.output, "out"),
    h("span.fact.share", null, `${share} % from cache`),
    markLegend(),
    h("span.fact.strong", null, sum.priced ? money(sum.cost) : plural(sum.calls, "model call")),
  ];
}

// Many calls share a bar, so that the plot stays small however long the conversation is.
function bars() {
  const tail = Math.max(1, state.tail.value);
  const buckets = Math.min(BUCKETS_MAX, Math.max(steps.value.length * 2, 64));
  /** @type {Map<number, { read: number, write: number, fresh: number, output: number, steps: number }>} */
  const byPlace = new Map();
  for (const step of steps.value) {
    if (!step.usage) continue;
    const place = Math.min(buckets - 1, Math.floor(((step.seq - 1) / tail) * buckets));
    const bar = byPlace.get(place) ?? { read: 0, write: 0, fresh: 0, output: 0, steps: 0 };
    bar.read += step.usage.cache_read_tokens;
    bar.write += step.usage.cache_write_tokens;
    bar.fresh += step.usage.input_tokens - step.usage.cache_read_tokens - step.usage.cache_write_tokens;
    bar.output += step.usage.output_tokens;
    bar.steps += 1;
    byPlace.set(place, bar);
  }
  return { buckets, byPlace };
}

function plot() {
  const { buckets, byPlace } = bars();
  const sumOf = (/** @type {any} */ bar) => (bar.read + bar.write + bar.fresh + bar.output) / bar.steps;
  const tallest = Math.max(1, ...[...byPlace.values()].map(sumOf));
  const drawn = [...byPlace].map(([place, bar]) => {
    let y = HEIGHT;
    const piece = (/** @type {string} */ kind, /** @type {number} */ value) => {
      const height = (value / bar.steps / tallest) * (HEIGHT - 8);
      y -= height;
      return h("rect", { class: kind, x: place + 0.12, y, width: 0.76, height: Math.max(height, value > 0 ? 0.6 : 0) });
    };
    return [piece("read", bar.read), piece("write", bar.write), piece("fresh", bar.fresh), piece("out", bar.output)];
  });
  return h("svg.plot", { viewBox: `0 0 ${buckets} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Tokens of ${plural(steps.value.length, "model call")}` }, drawn);
}

const MARKS = /** @type {Record<string, string>} */ ({ compaction: "compacted", prune: "pruned", hide: "hidden", instructions: "tools changed", break: "cache break" });
/** More marks than these share their places, so that the strip stays small. */
const MARKS_MAX = 160;

// What happened to the view, and where the provider's cache did not hold: two things, since a hide of what was never
// cached breaks nothing, and an expired cache breaks without a hide.
const marks = derived(() => {
  const found = steps.value.flatMap((step) => [
    ...(step.marks ?? []).map((mark) => ({ kind: mark.kind, seq: mark.seq, what: MARKS[mark.kind] ?? mark.kind })),
    ...(step.lost_tokens ? [{ kind: "break", seq: step.seq, what: `${MARKS.break}: ${plural(step.lost_tokens, "token")} read anew` }] : []),
  ]);
  const places = new Map(found.map((mark) => [`${mark.kind} ${Math.floor((mark.seq / Math.max(1, state.tail.peek())) * MARKS_MAX)}`, mark]));
  return [...places.values()];
});

/** Marks as buttons: each leads to its block. */
function markRow() {
  return h("div.marks", { role: "group", "aria-label": "Marks", hidden: () => marks.value.length === 0 }, () =>
    marks.value.map((mark) => h("button", {
      class: `mark-tick mark-${mark.kind}`, type: "button", "data-mark": mark.kind, "aria-label": `${mark.what}, block ${mark.seq}`, title: `${mark.what}, block ${mark.seq}`,
      vars: { "--at": `${((mark.seq - 0.5) / Math.max(1, state.tail.value)) * 100}%` }, onClick: () => state.goTo(mark.seq),
    })));
}

function markLegend() {
  const kinds = [...new Set(marks.value.map((mark) => mark.kind))];
  const times = (/** @type {string} */ kind) => marks.value.filter((mark) => mark.kind === kind).length;
  return kinds.map((kind) => h("span.fact", { "data-marks": kind }, h("span", { class: `tick mark-${kind}` }), times(kind) > 1 ? `${times(kind)} × ${MARKS[kind] ?? kind}` : (MARKS[kind] ?? kind)));
}

function slider() {
  return h("input.position", {
    type: "range", min: 1, max: () => Math.max(1, state.tail.value), "aria-label": "Position",
    "aria-valuetext": () => (state.position.value === null ? `now, block ${state.tail.value}` : `block ${state.moment.value} of ${state.tail.value}`),
    value: () => { state.tail.value; return String(state.moment.value); },
    onInput: (/** @type {any} */ event) => state.goTo(Number(event.target.value)),
  });
}

/** The bar that says that the past is shown. */
export function past() {
  return h("div.past", { hidden: () => state.position.value === null, role: "status" },
    h("span", null, () => `Block ${count(state.moment.value)} of ${count(state.tail.value)}`),
    h("button.link", { type: "button", onClick: () => state.goTo(null) }, "Back to now"));
}
