// @ts-check
/**
 * One call: arguments, what the gate decided, notices, results.
 */
import { approvalCard } from "../approvals.js";
import { clock, count, elapsed, parse } from "../format.js";
import { body } from "../rows.js";
import * as state from "../state.js";
import { copyButton } from "../tree.js";
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
    section("Gate", gate(call, found, moment.conversation)),
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

/** @param {any} call @param {(type: RegExp) => any[]} found @param {string} conversation */
function gate(call, found, conversation) {
  const requests = found(/^approval\.request$/);
  const decisions = found(/^approval\.decision$/).map((block) => parse(block.text) ?? {});
  const refused = found(/^react\.tool\.result$/).map((block) => block.meta?.error?.code).find((code) => /^(denied_|approval_)/.test(code ?? ""));
  const ruled = call.policy;
  return [
    ruled ? h("p", null, `${ruled.decision}, by rule `, h("code", null, ruled.rule ?? "default"), ruled.why ? `: ${ruled.why}` : "") : null,
    requests.map((block) => {
      const request = parse(block.text) ?? {};
      return h("div", null, h("p", null, request.rule ? ["Rule ", h("code", null, request.rule), " asked for a person's decision at "] : "A person's decision was asked for at ", clock(block.ts), "."), approvalCard(block, conversation));
    }),
    decisions.map((decision) => h("p", null, h("strong", null, decision.decision), ` by ${decision.by} through ${decision.via}${decision.note ? `: ${decision.note}` : ""}`)),
    refused ? h("p", null, "Refused: ", h("code", null, refused)) : null,
    requests.length === 0 && !refused && !ruled ? h("p.faint", null, "Allowed without asking: no rule asks for this call.") : null,
  ];
}

/** @param {any} block */
function position(block) {
  return h("button.link.seq", { type: "button", onClick: () => state.goTo(block.seq) }, count(block.seq));
}
