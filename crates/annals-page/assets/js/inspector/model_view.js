// @ts-check
/**
 * What the model sees: every part as it is rendered, what of it a request reads from the provider's cache, and where a
 * request left the prefix of the one before.
 *
 * The texts of the elements marked `data-rendered`, one after the other, are exactly what `annals timeline render --at`
 * prints; everything else on the panel stands beside them.
 */
import * as api from "../api.js";
import { cost, prices } from "../cost.js";
import { count, money, plural, size } from "../format.js";
import * as state from "../state.js";
import { h, signal } from "../view.js";

const FOLDED_CHARS = 1500;

/** @param {import("../inspector.js").Moment} moment */
export function modelView(moment) {
  const view = signal(/** @type {any} */ (null));
  const failed = signal("");
  const ask = (/** @type {boolean} */ all) =>
    api.get(api.conversation(moment.conversation, `/view?at=${moment.at}&all=${all}`)).then(
      (answer) => (view.value = answer),
      (error) => (failed.value = api.sentence(error)),
    );
  void ask(false);
  return h("div.model-view", { "data-at": moment.at }, () => {
    if (failed.value) return h("p.sentence-error", null, failed.value);
    return view.value ? drawn(view.value, () => void ask(true)) : h("p.empty", null, "Rendering.");
  });
}

/** @param {any} view @param {() => void} askForAll */
function drawn(view, askForAll) {
  const price = view.step ? prices.value.get(view.step.turn_id) : null;
  return [
    view.step ? stepCard(view.step, price) : h("p.empty", null, "No model has been asked yet."),
    legend(view),
    h("div.parts", { "aria-label": "Parts", role: "group" },
      view.left_out > 0 ? h("button.more", { type: "button", onClick: askForAll }, `Show the ${plural(view.left_out, "part")} before these`) : null,
      view.parts.map((/** @type {any} */ part, /** @type {number} */ index) => partRow(view, part, index + view.left_out, price))),
  ];
}

/** The model call of this moment: its buckets, its cost, where it left the prefix. @param {any} step @param {any} price */
function stepCard(step, price) {
  const usage = step.usage;
  const uncached = usage ? usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens : 0;
  const bucket = (/** @type {string} */ name, /** @type {string} */ kind, /** @type {number} */ tokens, /** @type {string} */ key) =>
    h("div.bucket", null, h("dt", null, h("span", { class: `dot ${kind}` }), name), h("dd", { "data-bucket": key }, count(tokens)));
  return h("section.step-card", { "aria-label": `Step ${step.step} of ${step.turn_id}`, "data-step": step.step },
    h("header", null,
      h("h2", null, `Step ${step.step}`), h("span.faint", null, step.turn_id),
      usage ? h("span.cost", { "data-cost": "" }, price ? money(cost(usage, price)) : "no price known") : null,
      step.at === state.moment.peek() ? null : h("button.link", { type: "button", onClick: () => state.goTo(step.at) }, "as it was sent")),
    usage
      ? h("dl.buckets", null, bucket("read", "read", usage.cache_read_tokens, "cache_read"), bucket("written", "write", usage.cache_write_tokens, "cache_write"), bucket("uncached", "fresh", uncached, "uncached"), bucket("out", "out", usage.output_tokens, "output"))
      : h("p.faint", null, "The provider has not counted this call yet."),
    prefix(step));
}

/** @param {any} step */
function prefix(step) {
  const report = step.prefix;
  if (!report) return null;
  if (!report.broke) {
    return h("p.prefix.kept", null, `Kept the whole prefix of the step before: ${plural(report.kept_tokens, "token")} (${size(report.kept_bytes)}), ${plural(report.new_tokens, "token")} new.`);
  }
  const { broke } = report;
  const seq = broke.cause?.seq;
  return h("div.prefix.broke", { role: "note" },
    h("p", null, h("strong", null, "The prefix broke at byte ", h("span", { "data-first-changed-byte": "" }, String(broke.byte))), ", in ", blockLink(broke.block_seq), "."),
    h("p", null, seq ? [h("span", null, `${causeName(broke.cause)} by `), h("span", { "data-cause-block": seq }, blockLink(seq)), "; "] : broke.cause?.cause === "layout" ? `The request was laid out as “${broke.cause.layout}”, the one before it was not; ` : "No block says why; ", `${plural(broke.lost_tokens, "token")} behind it were cached in vain.`),
    change(broke));
}

/** @param {any} broke */
function change(broke) {
  if (broke.before === undefined && broke.after === undefined) return null;
  return h("div.change", null, h("pre.removed", { tabindex: "0" }, broke.before ?? ""), h("pre.added", { tabindex: "0" }, broke.after ?? ""));
}

/** @param {any} cause */
function causeName(cause) {
  if (cause.cause === "compaction") return "Compacted";
  if (cause.cause === "offer") return "The instructions or the tools were changed";
  return cause.reason === "hide" ? "Hidden" : "Pruned";
}

/** @param {number} seq */
function blockLink(seq) {
  return h("button.link", { type: "button", onClick: () => state.goTo(seq) }, `block ${count(seq)}`);
}

/** @param {any} view */
function legend(view) {
  const sum = (/** @type {string} */ kind) => view.parts.filter((/** @type {any} */ part) => part.cache === kind).reduce((/** @type {number} */ all, /** @type {any} */ part) => all + part.tokens, 0);
  const entry = (/** @type {string} */ kind, /** @type {string} */ name) => h("span.fact", null, h("span", { class: `dot ${kind === "uncached" ? "fresh" : kind}` }), `${name} ${count(sum(kind))}`);
  return h("div.legend", null, h("h2", null, `The view at block ${count(view.at)}`), h("div.facts", null, entry("read", "read"), entry("write", "written"), entry("uncached", "uncached"), h("span.fact", null, `${plural(view.tokens, "token")} and ${count(view.fixed_tokens)} of instructions and tools`)), view.disagreement ? h("p.faint", null, view.disagreement) : null);
}

const RATES = /** @type {Record<string, string>} */ ({ read: "cache_read", write: "cache_write", uncached: "input" });

/** @param {any} view @param {any} part @param {number} index @param {any} price */
function partRow(view, part, index, price) {
  const points = view.cache_points.filter((/** @type {any} */ mark) => mark.part === index).map((/** @type {any} */ mark) => mark.point);
  const text = part.text ?? "";
  const folded = signal(text.length > FOLDED_CHARS);
  const rate = price?.[RATES[part.cache]];
  const head = h("div.part-head", null,
    part.block_seq ? h("button.link.seq", { type: "button", onClick: () => state.goTo(part.block_seq) }, count(part.block_seq)) : h("span.seq", null, "tail"),
    h("span", null, `${count(part.tokens)} tok`),
    rate && part.tokens ? h("span.cost", null, money(rate * part.tokens)) : null);
  // The separators belong to the text, so that what is read from the page is what is sent.
  const rendered = [
    index > 0 ? h("span.separator", { "data-rendered": "" }, "\n\n") : null,
    h("span", { "data-rendered": "" }, text),
    [...new Set(points)].map((point) => h("span.cache-point", { "data-rendered": "", "data-point": point }, `\n=>[${point}]`)),
    index === view.left_out + view.parts.length - 1 ? h("span.separator", { "data-rendered": "" }, "\n") : null,
  ];
  return h("div", { class: `part cache-${part.cache}`, "data-cache": part.cache, "data-block": part.block_seq ?? null, "data-tokens": part.tokens },
    head,
    h("pre", { "data-folded": () => (folded.value ? "true" : null) }, rendered),
    text.length > FOLDED_CHARS ? h("button.more", { type: "button", onClick: () => (folded.value = !folded.peek()) }, () => (folded.value ? `Show all ${count(text.length)} characters` : "Show less")) : null);
}
