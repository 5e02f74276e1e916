// @ts-check
/**
 * Sources, plan, sandbox and the block itself.
 */
import { count, firstLine, parse, plural, size } from "../format.js";
import * as state from "../state.js";
import { copyButton, fileLink } from "../tree.js";
import { h } from "../view.js";

/** @typedef {import("../inspector.js").Moment} Moment */

const SNIPPET_CHARS = 240;

/** @param {Moment} moment */
export function sourcesPanel(moment) {
  const { sources } = moment.facts;
  if (sources.length === 0) return h("p.empty", null, "No sources yet. Pages that were read and files that were attached are numbered here, and answers cite the numbers.");
  return h("ol.sources", { "aria-label": "Sources" }, sources.map((/** @type {any} */ source) =>
    h("li", { value: source.sid }, h("div.source", null,
      h("span.sid", null, String(source.sid)),
      h("div", null,
        /^https?:/i.test(source.url ?? "") ? h("a", { href: source.url, target: "_blank", rel: "noopener noreferrer" }, source.title || source.url) : source.artifact_path ? fileLink(source.artifact_path, source.title) : h("span", null, source.title),
        h("p.faint", null, [source.source_type, source.url, source.size_bytes ? size(source.size_bytes) : null].filter(Boolean).join(" · ")),
        source.text ? h("p.snippet", null, firstLine(source.text, SNIPPET_CHARS)) : null,
        source.cited.length > 0 ? h("p.faint", null, "Cited in ", source.cited.map((/** @type {number} */ seq, /** @type {number} */ at) => [at > 0 ? ", " : "", h("button.link", { type: "button", onClick: () => state.goTo(seq) }, `block ${count(seq)}`)])) : h("p.faint", null, "Not cited so far."))))));
}

const WORDS = /** @type {Record<string, string>} */ ({ done: "done", in_progress: "in progress", pending: "open", failed: "failed" });

/** @param {Moment} moment */
export function planPanel(moment) {
  const { plan } = moment.facts;
  if (!plan) return h("p.empty", null, "There is no plan at this moment. The model makes one when a task has several steps.");
  const status = (/** @type {number} */ at) => plan.status?.[String(at + 1)] ?? "pending";
  return h("div.plan-panel", null,
    h("ol.plan", { "aria-label": "Plan" }, plan.steps.map((/** @type {string} */ step, /** @type {number} */ at) =>
      h("li", { "data-state": status(at) }, h("span.pip", { "data-state": status(at) === "in_progress" ? "now" : status(at), "aria-hidden": "true" }), h("span", null, step), h("span.faint", null, WORDS[status(at)] ?? status(at))))),
    h("p.faint", null, plan.plan_id));
}

const LAYERS = /** @type {Record<string, string>} */ ({
  user: "identities inside mean nothing outside", mount: "a root made only of what programs need", pid: "sees only its own processes",
  ipc: "its own queues and shared memory", uts: "its own host name", net: "no network but its own loopback",
  "unprivileged-uid": "runs as nobody", seccomp: "unneeded system calls are refused", landlock: "a second rule about files",
  cgroup: "memory and processes as a whole",
});

/** @param {Moment} moment */
export function sandboxPanel(moment) {
  const { sandbox } = moment.facts;
  const rows = (/** @type {[string, any][]} */ pairs) => h("dl.table", null, pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
  return h("div.sandbox-panel", null,
    h("section", null, h("h2.label", null, "Backend"), h("p", null, sandbox.backend)),
    sandbox.layers.length > 0
      ? h("section", null, h("h2.label", null, "Isolation in force"), h("ul.layers", null, sandbox.layers.map((/** @type {any} */ layer) =>
          h("li", { "data-on": String(layer.in_force) }, h("span", { class: `dot ${layer.in_force ? "read" : "off"}` }), h("span", null, layer.name), h("span.faint", null, layer.in_force ? (LAYERS[layer.name] ?? "") : `not here: ${layer.missing ?? ""}`)))))
      : null,
    sandbox.limits.length > 0 ? h("section", null, h("h2.label", null, "Limits"), rows(sandbox.limits.map((/** @type {any} */ limit) => [limit.what, /^\d+$/.test(limit.most) ? count(Number(limit.most)) : limit.most]))) : null,
    h("section", null, h("h2.label", null, "Refused"), sandbox.refused.length === 0
      ? h("p.faint", null, "Nothing was refused so far.")
      : h("ul.refused", null, sandbox.refused.map((/** @type {any} */ item) => h("li", null, h("button.link.seq", { type: "button", onClick: () => state.goTo(item.seq) }, count(item.seq)), h("span.badge.bad", null, item.code), h("span", null, item.message))))));
}

/** @param {Moment} moment */
export function rawPanel(moment) {
  if (!moment.block) return h("p.empty", null, "This block could not be read.");
  const whole = JSON.stringify(moment.block, null, 2);
  return h("div.raw", null, h("div.raw-head", null, h("span.faint", null, `Block ${count(moment.at)} · ${plural(moment.block.tokens, "token")}`), copyButton(() => whole)), h("pre", { tabindex: "0" }, whole));
}
