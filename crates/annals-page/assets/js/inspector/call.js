// @ts-check
/**
 * One call: arguments, what the gate decided, notices, results.
 */
import { clock, count, elapsed, parse } from "../format.js";
import { body } from "../rows.js";
import * as state from "../state.js";
import { copyButton, sentence } from "../tree.js";
import { h } from "../view.js";

/** @param {import("../inspector.js").Moment} moment */
export function callPanel(moment) {
  const call = moment.facts.call;
  if (!call) return h("p.empty", null, "The block at this position belongs to no call. Choose a call or one of its results.");
  const found = (/** @type {RegExp} */ type) => call.blocks.filter((/** @type {any} */ block) => type.test(block.type));
  const results = found(/^react\.tool\.result$/);
  const error = results[0]?.meta?.error;
  const took = results.length > 0 && call.blocks[0] ? Date.parse(results[0].ts) - Date.parse(found(/call$/)[0]?.ts ?? results[0].ts) : null;
  return h("div.call-panel", null,
    h("header", null, h("h2", null, call.tool), h("code.faint", null, call.call_id),
      results.length === 0 ? h("span.chip.live", null, "no result yet") : error ? h("span.chip.bad", null, error.code ?? "failed") : h("span.chip.good", null, "done"),
      took !== null ? h("span.faint", null, elapsed(took)) : null),
    argumentsOf(call),
    section("Gate", gate(found)),
    section("Notices", found(/^react\.notice$/).map((/** @type {any} */ block) => body(block, moment.conversation))),
    section("Result", results.length === 0 ? null : results.map((/** @type {any} */ block) => h("div.result-block", null, position(block), body(block, moment.conversation)))));
}

/** @param {string} name @param {any} content */
function section(name, content) {
  const inner = [content].flat().filter(Boolean);
  return inner.length === 0 ? null : h("section", null, h("h3", null, name), inner);
}

/** @param {any} call */
function argumentsOf(call) {
  const given = call.arguments;
  const isObject = given && typeof given === "object" && !Array.isArray(given);
  const whole = () => (typeof given === "string" ? given : JSON.stringify(given, null, 2));
  const value = (/** @type {any} */ item) => (typeof item === "string" ? item : JSON.stringify(item, null, 2));
  return h("section", null, h("h3", null, "Arguments", copyButton(whole)),
    isObject
      ? h("dl.arguments", null, Object.entries(given).map(([name, item]) => h("div", null, h("dt", null, name), h("dd", null, h("pre", { tabindex: "0" }, value(item))))))
      : h("pre", { tabindex: "0" }, whole()));
}

/** What decided whether the call runs: rules, a person, or neither. @param {(type: RegExp) => any[]} found */
function gate(found) {
  const requests = found(/^approval\.request$/);
  const decisions = found(/^approval\.decision$/).map((block) => parse(block.text) ?? {});
  const results = found(/^react\.tool\.result$/);
  const error = results.map((block) => block.meta?.error).find((error) => /^(denied_|approval_)/.test(error?.code ?? ""));
  const ruled = results.map((block) => block.meta?.gate).find(Boolean);
  const isPlain = requests.length === 0 && !error && !ruled;
  return [
    // After a person's yes the rules allow, by that very yes.
    ruled && requests.length === 0 ? ruling(ruled) : null,
    requests.map((block) => h("div", { "data-gate": "ask" }, asking(parse(block.text) ?? {}, block.ts))),
    decisions.map((decision) => h("p", { "data-gate": decision.decision }, h("span", { class: `badge ${decision.decision?.startsWith("deny") ? "bad" : "good"}` }, decision.decision), ` by ${decision.by} through ${decision.via}${decision.note ? `: ${decision.note}` : ""}`)),
    error && !ruled ? h("p", { "data-gate": "refused" }, h("span.badge.bad", null, error.code), " ", sentence(error.message ?? "")) : null,
    isPlain && results.length > 0 ? h("p.faint", { "data-gate": "default" }, "Allowed by default: no rule speaks of this call.") : null,
  ];
}

/** @param {{ decide: string, by: { id: string, place?: string, why?: string }[] }} ruled */
function ruling(ruled) {
  const denied = ruled.decide === "deny";
  return h("div", { "data-gate": ruled.decide }, ruled.by.map((rule) =>
    h("p", null, h("span", { class: `badge ${denied ? "bad" : "good"}` }, denied ? "denied" : "allowed"), " by rule ", h("code", null, rule.id), rule.place ? h("span.faint", null, ` in ${rule.place}`) : null, rule.why ? `: ${rule.why}` : "")));
}

/** @param {any} request @param {string} ts */
function asking(request, ts) {
  return h("p", null, h("span.badge.warn", null, "asked"), request.rule ? [" by rule ", h("code", null, request.rule)] : null, ` at ${clock(ts)}`, request.why ? [": ", sentence(request.why)] : "");
}

/** @param {any} block */
function position(block) {
  return h("button.link.seq", { type: "button", onClick: () => state.goTo(block.seq) }, count(block.seq));
}
