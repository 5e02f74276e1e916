// @ts-check
/**
 * Calls that wait for a person: as cards in the timeline, and pinned above it.
 */
import * as api from "./api.js";
import { clock, parse } from "./format.js";
import * as state from "./state.js";
import { h, signal } from "./view.js";

/** @typedef {import("./types.js").Block} Block */

/** A request where it stands in the timeline. @param {Block} block @param {string} conversation */
export function approvalCard(block, conversation) {
  const request = parse(block.text) ?? {};
  const isOpen = () => state.approvals.value.some((item) => item.approval_id === request.approval_id);
  return h("div", null, () => (isOpen() ? card(request, conversation) : h("div.mark", null, h("span.kind", null, "asked"), h("span.what", null, `whether ${request.tool} may run`))));
}

/** Requests that wait, whatever the reader looks at. */
export function pinned() {
  return h("section.pinned", { "aria-label": "Waiting for you", hidden: () => state.approvals.value.length === 0 }, () =>
    state.approvals.value.map((request) => card(request, state.current.peek() ?? "")));
}

/** @param {any} request @param {string} conversation */
function card(request, conversation) {
  const busy = signal(false);
  const note = signal("");
  const decide = async (/** @type {string} */ decision) => {
    busy.value = true;
    try {
      const path = api.conversation(conversation, `/approvals/${encodeURIComponent(request.approval_id)}`);
      await api.post(path, { decision, ...(note.peek() ? { note: note.peek() } : {}) });
    } catch (error) {
      state.fail(error);
    }
    busy.value = false;
    await state.readApprovals();
  };
  const button = (/** @type {string} */ kind, /** @type {string} */ name, /** @type {string} */ decision, /** @type {string} */ help) =>
    h("button", { class: kind, type: "button", disabled: busy, title: help, onClick: () => decide(decision) }, name);
  return h("div.approval", { role: "group", "aria-label": `Approval of ${request.tool}` },
    h("p.approval-head", null, h("strong", null, request.tool), " wants to run", request.rule ? h("span.faint", null, ` · asked by rule ${request.rule}`) : null),
    details(request),
    request.proposed_rule ? h("p.faint", null, "“Always” would write ", h("code", null, request.proposed_rule)) : null,
    request.expires ? h("p.faint", null, `Lapses at ${clock(request.expires)}.`) : null,
    h("input.note-box", { type: "text", "aria-label": "Note", placeholder: "Note (on a refusal the model reads it)", value: note, onInput: (/** @type {any} */ event) => (note.value = event.target.value) }),
    h("div.buttons", null,
      button("primary", "Approve", "once", "This call may run"),
      button("secondary", "In this conversation", "conversation", "Calls like it may run in this conversation"),
      request.proposed_rule ? button("secondary", "Always", "always", "Writes the rule above") : null,
      button("danger", "Deny", "deny", "The call does not run; the model is told"),
      button("quiet", "Deny and stop", "deny_and_stop", "The turn ends")));
}

/** The command, the difference or the arguments. @param {any} request */
function details(request) {
  const facets = request.facets ?? {};
  const rows = Object.entries(facets).filter(([name]) => name !== "tool");
  const shown = request.command ?? facets.command;
  return h("div.approval-what", null,
    shown ? h("pre", { tabindex: "0" }, typeof shown === "string" ? shown : JSON.stringify(shown)) : null,
    request.patch ? h("pre.patch", { tabindex: "0" }, request.patch) : null,
    rows.filter(([name]) => name !== "command").map(([name, value]) => h("p.facet", null, h("span.kind", null, name), h("code", null, typeof value === "string" ? value : JSON.stringify(value)))),
    request.arguments ? h("pre", { tabindex: "0" }, JSON.stringify(request.arguments, null, 2)) : null);
}
