// @ts-check
/**
 * One block as a row of the timeline.
 */
import { approvalRow } from "./approvals.js";
import { artifact } from "./api.js";
import { clock, count, elapsed, extension, fileName, firstLine, money, parse, short, size } from "./format.js";
import { costOf } from "./cost.js";
import { editPrompt } from "./composer.js";
import { answerRow, questionRow } from "./questions.js";
import * as state from "./state.js";
import { fileLink, listing, prose } from "./tree.js";
import { h, signal } from "./view.js";

/** @typedef {import("./types.js").Block} Block */

const FOLDED_LINES = 14;
const FOLDED_CHARS = 1200;
const SUMMARY_CHARS = 140;

/** @type {Record<string, (block: Block, conversation: string) => any>} */
const DRAWN = {
  "turn.header": turnHeader,
  "user.prompt": prompt,
  "user.steer": steer,
  "user.attachment.meta": attachmentMeta,
  "user.attachment": file,
  "agent.log.header": (block) => quiet("answered by", block.text ?? ""),
  "tools.table": (block) => quiet("tools", toolNames(block)),
  "react.thinking": thinking,
  "react.notes": notes,
  "react.note": notes,
  "react.tool.code": code,
  "react.tool.call": call,
  "react.tool.result": result,
  "react.notice": notice,
  "react.plan": plan,
  "react.plan.ack": (block) => quiet("plan", firstLine(block.text ?? "", SUMMARY_CHARS)),
  "react.decision.raw": (block) => folded("not understood", block.text ?? ""),
  "assistant.completion": answer,
  "react.completion": completion,
  "approval.request": approvalRow,
  "approval.decision": decision,
  "input.request": questionRow,
  "input.response": answerRow,
  "stage.gate": (block) => quiet("title", parse(block.text)?.title ?? block.text ?? ""),
  "stage.clarification": answer,
  "system.message": (block) => mark("system", block.text ?? ""),
  "conv.range.summary": (block) => summary(block),
  "timeline.hide": hidden,
};

/** @param {Block} block @param {string} conversation */
export function body(block, conversation) {
  return (DRAWN[block.type] ?? other)(block, conversation);
}

/** Which lane a row is in; styles hang on it. @param {Block} block */
export function lane(block) {
  if (block.type === "user.prompt" || block.type === "user.steer") return "person";
  if (block.type === "assistant.completion" || block.type === "stage.clarification") return "answer";
  if (block.type === "turn.header" || block.type === "react.completion") return "turn";
  if (block.type === "react.tool.call") return "call";
  if (block.call_id && /^react\.(tool|notice)/.test(block.type)) return "result";
  if (block.type === "react.notes") return "notes";
  if (/^(approval|input)\./.test(block.type)) return "approval";
  return "quiet";
}

/** What a screen reader says of a row. @param {Block} block */
export function label(block) {
  const names = /** @type {Record<string, string>} */ ({
    "user.prompt": "You asked", "assistant.completion": "Answer", "react.tool.call": "Call", "react.tool.result": "Result",
    "react.notes": "Note", "turn.header": "Turn begins", "react.completion": "Turn ends", "approval.request": "Approval", "input.request": "Question",
  });
  return `${names[block.type] ?? block.type}, block ${block.seq}`;
}

/** @param {Block} block */
function turnHeader(block) {
  return h("div.turn-line", null, h("span.turn-id", null, block.turn_id), h("time", { datetime: block.ts }, clock(block.ts)));
}

/** @param {Block} block @param {string} conversation */
function prompt(block, conversation) {
  const edit = h("button.quiet.edit", { type: "button", onClick: (/** @type {Event} */ event) => { event.stopPropagation(); editPrompt(block); } }, "Edit");
  return h("div.said", null, h("div.who", null, h("span", null, "You"), edit), text(block, conversation));
}

/** @param {Block} block @param {string} conversation */
function steer(block, conversation) {
  return h("div.said", null, h("div.who", null, "You, meanwhile"), text(block, conversation));
}

/** @param {Block} block @param {string} conversation */
function answer(block, conversation) {
  return h("div.said", null, h("div.who", null, h("span", null, "Annals"), spent(block)), text(block, conversation));
}

/** @param {Block} block @param {string} conversation */
function notes(block, conversation) {
  return h("div.note-row", null, text(block, conversation), spent(block));
}

/** The text of a block: its tree if the server made one, else as it was written. @param {Block} block @param {string} conversation */
function text(block, conversation) {
  const tree = state.treeOf(conversation, block.seq);
  if (Array.isArray(tree)) return prose(tree, { conversation });
  return h("div.prose.plain", { "aria-busy": state.blocks?.awaitsTree(block) ? "true" : null }, block.text ?? "");
}

/** Tokens and money of the model call that wrote this block. @param {Block} block */
function spent(block) {
  const usage = block.meta?.usage;
  if (!usage) return null;
  const cost = costOf(usage, block);
  const fresh = usage.input_tokens - usage.cache_read_tokens;
  return h("span.spent", { title: `${count(usage.input_tokens)} tokens in, ${count(usage.cache_read_tokens)} of them read from the cache; ${count(usage.output_tokens)} out` },
    h("span.step", null, `step ${block.meta?.step ?? "?"}`),
    h("span.dot.read", null), short(usage.cache_read_tokens),
    h("span.dot.fresh", null), short(fresh),
    h("span.arrow", { "aria-hidden": "true" }, "→"), short(usage.output_tokens),
    cost === null ? null : h("span.cost", null, money(cost)));
}

/** @param {Block} block */
function thinking(block) {
  return folded(`thinking · ${count(block.tokens)} tokens`, block.text ?? "");
}

/** @param {string} name @param {any} what */
function quiet(name, what) {
  return h("div.quiet-line", null, h("span.kind", null, name), h("span.what", null, what));
}

/** @param {string} name @param {any} what */
function mark(name, what) {
  return h("div.mark", null, h("span.kind", null, name), h("span.what", null, what));
}

/** Text that opens on demand. @param {string} name @param {string} content */
function folded(name, content) {
  const open = signal(false);
  return h("div.folded", null,
    h("button.fold", { type: "button", "aria-expanded": () => String(open.value), onClick: () => (open.value = !open.peek()) }, name),
    () => (open.value ? h("pre.plain", { tabindex: "0" }, content) : h("span.peek", null, firstLine(content, SUMMARY_CHARS))));
}

/** @param {Block} block */
function toolNames(block) {
  const tools = parse(block.text)?.tools;
  return Array.isArray(tools) ? `${tools.length} offered` : "offered";
}

/** What of a call's arguments says most. @param {any} params */
export function gist(params) {
  if (!params || typeof params !== "object") return "";
  for (const key of ["command", "path", "url", "query", "name_regex", "question"]) {
    if (typeof params[key] === "string") return firstLine(params[key], SUMMARY_CHARS);
  }
  if (Array.isArray(params.paths)) return firstLine(params.paths.join(", "), SUMMARY_CHARS);
  if (Array.isArray(params.steps)) return firstLine(params.steps.join(" · "), SUMMARY_CHARS);
  const first = Object.values(params).find((value) => typeof value === "string");
  return first ? firstLine(first, SUMMARY_CHARS) : "";
}

/** @param {Block} block */
function call(block) {
  const said = parse(block.text) ?? {};
  const runs = () => state.runningCalls.value.has(block.call_id ?? "");
  return h("div.call-line", { "data-running": () => (runs() ? "true" : null) },
    h("span.tool", null, said.tool_id ?? "call"),
    h("span.gist", null, gist(said.params)),
    () => (runs() ? h("span.running", { role: "status" }, () => howFar(state.progress.value.get(block.call_id ?? ""))) : null));
}

/** What a running call says of itself. @param {import("./types.js").Progress | undefined} said */
function howFar(said) {
  if (!said) return "running";
  const far = said.total ? `${count(said.progress)} of ${count(said.total)}` : count(said.progress);
  return said.message ? `${far} · ${firstLine(said.message, SUMMARY_CHARS)}` : far;
}

/** @param {Block} block @param {string} conversation */
function code(block, conversation) {
  const tree = state.treeOf(conversation, block.seq);
  return foldedCode(block.text ?? "", tree, conversation);
}

/** @param {string} content @param {any} tree @param {string} conversation */
function foldedCode(content, tree, conversation) {
  const lines = content.split("\n").length;
  const open = signal(lines <= FOLDED_LINES);
  const [, attributes, ...children] = Array.isArray(tree) && tree[0] === "pre" ? tree : ["pre", null, content];
  const drawn = h("div.fold-body", { "data-folded": () => (open.value ? null : "true") }, listing(attributes ?? {}, children, { conversation }));
  if (lines <= FOLDED_LINES) return drawn;
  return h("div", null, drawn, more(open, `Show all ${count(lines)} lines`));
}

/** @param {import("./view.js").Signal<boolean>} open @param {string} name */
function more(open, name) {
  return h("button.more", { type: "button", "aria-expanded": () => String(open.value), onClick: () => (open.value = !open.peek()) },
    () => (open.value ? "Show less" : name));
}

/** @param {Block} block @param {string} conversation */
function result(block, conversation) {
  if (block.path?.startsWith("fi:")) return file(block, conversation);
  const error = block.meta?.error;
  if (error) {
    return h("div.failed", null, h("span.badge.bad", null, error.code ?? "failed"), h("span.what", null, error.message ?? block.text ?? ""));
  }
  if (block.meta?.digest_of_artifact) {
    const digest = parse(block.text) ?? {};
    return quiet("file", [digest.artifact_path ? fileLink(digest.artifact_path, fileName(digest.artifact_path)) : "", " ", digest.size_bytes ? size(digest.size_bytes) : ""]);
  }
  return output(block, conversation);
}

/** @param {Block} block @param {string} conversation */
function output(block, conversation) {
  const content = block.text ?? "";
  const tree = state.treeOf(conversation, block.seq);
  if (Array.isArray(tree) && tree[0] !== "pre") return longProse(tree, content, conversation);
  if (content.length < SUMMARY_CHARS && !content.includes("\n")) return h("code.inline-result", null, content);
  return foldedCode(content, tree, conversation);
}

/** @param {any[]} tree @param {string} content @param {string} conversation */
function longProse(tree, content, conversation) {
  const open = signal(content.length <= FOLDED_CHARS);
  const drawn = h("div.fold-body", { "data-folded": () => (open.value ? null : "true") }, prose(tree, { conversation }));
  return content.length <= FOLDED_CHARS ? drawn : h("div", null, drawn, more(open, `Show all ${count(content.length)} characters`));
}

/** @param {Block} block @param {string} conversation */
function file(block, conversation) {
  const path = block.path ?? "";
  const bytes = block.meta?.size_bytes ?? block.blob?.size_bytes ?? block.text?.length ?? 0;
  const isPicture = /^image\/(png|jpeg|gif|webp)$/.test(block.mime);
  const show = () => {
    state.openFile.value = { path, seq: block.seq };
    state.tab.value = "Files";
    state.pane.value = "inspector";
  };
  return h("div.file-card", null,
    isPicture ? h("img.thumb", { src: artifact(conversation, path, { seq: block.seq }), alt: "", loading: "lazy" }) : h("span.file-type", { "aria-hidden": "true" }, extension(path)),
    h("div.file-text", null,
      h("button.link.file-name", { type: "button", onClick: show }, fileName(path)),
      h("span.file-facts", null, `${block.mime} · ${size(bytes)}`)));
}

/** @param {Block} block */
function attachmentMeta(block) {
  const said = parse(block.text) ?? {};
  return quiet("attached", [fileName(said.artifact_path ?? block.path ?? ""), said.summary ? ` · ${said.summary}` : ""]);
}

/** @param {Block} block */
function notice(block) {
  const said = parse(block.text);
  return h("div.notice", null, h("span.badge.warn", null, said?.code ?? "notice"), h("span.what", null, said?.message ?? block.text ?? ""));
}

const STEP_STATES = /** @type {Record<string, string>} */ ({ done: "done", in_progress: "now", pending: "open", failed: "failed" });

/** @param {Block} block */
function plan(block) {
  return quiet("plan", planLine(parse(block.text)));
}

/** @param {any} said */
function planLine(said) {
  const steps = said?.steps ?? [];
  const done = steps.filter((/** @type {any} */ _, /** @type {number} */ at) => said.status?.[String(at + 1)] === "done").length;
  return h("span.plan-line", null,
    steps.map((/** @type {string} */ step, /** @type {number} */ at) =>
      h("span.pip", { "data-state": STEP_STATES[said.status?.[String(at + 1)]] ?? "open", title: step })),
    h("span", null, `${done} of ${steps.length} steps done`));
}

/** @param {Block} block */
function decision(block) {
  const said = parse(block.text) ?? {};
  return mark(said.decision?.startsWith("deny") ? "denied" : "approved", `${said.decision ?? ""} by ${said.by ?? "somebody"}${said.note ? `: ${said.note}` : ""}`);
}

/** @param {Block} block */
function summary(block) {
  return h("div.mark", null, h("span.kind", null, "compacted"), folded("what stands for the blocks before", block.text ?? ""));
}

/** @param {Block} block */
function hidden(block) {
  const said = parse(block.text) ?? {};
  const items = said.items ?? [];
  const names = items.map((/** @type {any} */ item) => fileName(item.path ?? "")).join(", ");
  return mark(said.reason === "hide" ? "hidden" : "pruned", `${firstLine(names, SUMMARY_CHARS)}, from block ${items[0]?.from_seq ?? "?"} on`);
}

/** @param {Block} block */
function completion(block) {
  const said = parse(block.text) ?? {};
  const good = said.outcome === "complete" || said.outcome === "clarify";
  const usage = said.usage ?? {};
  const cost = costOf(usage, block);
  return h("div.turn-end", null,
    h("span", { class: `badge ${good ? "good" : "bad"}` }, said.outcome ?? "ended"),
    h("span", null, elapsed(said.elapsed_ms ?? 0)),
    h("span", null, `${said.iterations ?? 0} model calls`),
    h("span", null, `${short(usage.input_tokens ?? 0)} in, ${short(usage.cache_read_tokens ?? 0)} cached, ${short(usage.output_tokens ?? 0)} out`),
    cost === null ? null : h("span.cost", null, money(cost)),
    said.error ? h("span.what", null, said.error) : null);
}

/** @param {Block} block */
function other(block) {
  return folded(block.type, block.text ?? "");
}
