// @ts-check
/**
 * Calls that wait for a person: as cards above the timeline, and as lines where they stand in it.
 */
import * as api from "./api.js";
import { clock, parse } from "./format.js";
import { questionCard } from "./questions.js";
import * as state from "./state.js";
import { difference, fileLink, listing, sentence } from "./tree.js";
import { h, signal } from "./view.js";

/** @typedef {import("./types.js").Block} Block */

/** A request where it stands in the timeline; what it is about is pinned above while it waits. @param {Block} block */
export function approvalRow(block) {
  const request = parse(block.text) ?? {};
  const isOpen = () => state.approvals.value.some((item) => item.approval_id === request.approval_id);
  const toCard = () => /** @type {HTMLElement | null} */ (document.querySelector(".pinned .approval"))?.focus();
  return h("div.mark", null, h("span.kind", null, "asked"), h("span.what", null, `whether ${request.tool} may run`),
    () => (isOpen() ? h("button.link", { type: "button", onClick: toCard }, "Decide") : null));
}

/** Requests that wait, whatever the reader looks at. */
export function pinned() {
  return h("section.pinned", { "aria-label": "Waiting for you", hidden: () => state.approvals.value.length + state.questions.value.length === 0 },
    () => state.approvals.value.map((request) => card(request, state.current.peek() ?? "")),
    () => state.questions.value.map((request) => questionCard(request, state.current.peek() ?? "")));
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
    await state.readWaiting();
  };
  const button = (/** @type {string} */ kind, /** @type {string} */ name, /** @type {string} */ decision, /** @type {string} */ help) =>
    h("button", { class: kind, type: "button", disabled: busy, title: help, onClick: () => decide(decision) }, name);
  return h("div.approval", { role: "group", tabindex: "-1", "aria-label": `Approval of ${request.tool}` },
    h("p.approval-head", null, h("strong", null, request.tool), request.known_as ? h("span.faint", null, ` (${request.known_as})`) : null, " wants to run"),
    reason(request),
    details(request, conversation),
    remembered(request),
    h("div.decide", null, h("input.note-box", { type: "text", "aria-label": "Note", placeholder: "Note (on a refusal the model reads it)", value: note, onInput: (/** @type {any} */ event) => (note.value = event.target.value) }),
    h("div.buttons", null,
      button("primary", "Approve", "once", "This call may run"),
      button("secondary", "In this conversation", "conversation", "Calls like it may run in this conversation"),
      request.proposed_rule ? button("secondary", "Always", "always", "Writes the rule above") : null,
      button("danger", "Deny", "deny", "The call does not run; the model is told"),
      button("quiet", "Deny and stop", "deny_and_stop", "The turn ends"))));
}

/** Why a person is asked, and until when. @param {any} request */
function reason(request) {
  // The reason names its rule already.
  const why = request.why ? `Asked because: ${request.why}` : request.rule ? `Asked by rule \`${request.rule}\`` : "";
  const until = request.expires ? `Lapses at ${clock(request.expires)}` : "";
  const said = [why, until].filter(Boolean).join(" · ");
  return said ? h("p.faint", null, sentence(said)) : null;
}

/** What "Always" would write. @param {any} request */
function remembered(request) {
  if (!request.proposed_rule) return h("p.faint", null, "No narrow rule fits this call, so it cannot be allowed for always.");
  return h("div.remembered", null, h("p.faint", null, "“Always” would write into your rules:"), h("pre", { tabindex: "0", "aria-label": "Rule" }, request.proposed_rule.trim()));
}

/** The command, the difference to the file as it is now, or the arguments. @param {any} request @param {string} conversation */
function details(request, conversation) {
  const found = signal(/** @type {any} */ (null));
  const query = new URLSearchParams({ call: request.call_id });
  api.get(api.conversation(conversation, `/proposal?${query}`)).then(
    (answer) => (found.value = answer),
    // What the rules looked at is in the request itself.
    () => (found.value = {}),
  );
  return h("div.approval-what", null, () => (found.value ? proposed(found.value, request, conversation) : h("p.faint", null, "Reading what it would do.")));
}

/** @param {any} found @param {any} request @param {string} conversation */
function proposed(found, request, conversation) {
  const { change, code, fails } = found;
  if (change) {
    return [
      h("p.facet", null, h("span.kind", null, change.is_new ? "new file" : "changes"), /^(fi|ar|tc):/.test(change.path) && !change.is_new ? fileLink(change.path, change.path) : h("code", null, change.path)),
      difference(change.difference),
    ];
  }
  return [
    fails ? h("p.sentence-error", null, sentence(`It would fail as things are: ${fails}`)) : null,
    code ? ran(code, conversation) : null,
    facets(request, Boolean(code)),
    !code && found.arguments ? h("pre", { tabindex: "0", "aria-label": "Arguments" }, JSON.stringify(found.arguments, null, 2)) : null,
  ];
}

/** @param {any} tree @param {string} conversation */
function ran(tree, conversation) {
  const [, attributes, ...children] = tree;
  return listing(attributes ?? {}, children, { conversation });
}

/** What the rules look at. @param {any} request @param {boolean} hasCode */
function facets(request, hasCode) {
  const shown = (/** @type {string} */ name) => name !== "tool" && !(hasCode && name === "command");
  const text = (/** @type {any} */ value) => (typeof value === "string" ? value : Array.isArray(value) ? value.join(", ") : JSON.stringify(value));
  return Object.entries(request.facets ?? {})
    .filter(([name]) => shown(name))
    .map(([name, value]) => h("p.facet", null, h("span.kind", null, name), h("code", null, text(value))));
}
