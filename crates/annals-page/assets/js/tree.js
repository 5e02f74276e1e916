// @ts-check
/**
 * Trees from the server as nodes: markdown, code, tables, differences.
 *
 * A tree is `[tag, attributes, ...children]` or a text. Only the tags and attributes below become elements; whatever
 * else a tree holds is shown as its text, so a tree can never make a node that acts.
 */
import { artifact } from "./api.js";
import { isSafeAddress } from "./address.js";
import { count, plural } from "./format.js";
import { openFile, tab, pane } from "./state.js";
import { h } from "./view.js";

/** @typedef {{ conversation: string, base?: string }} Place where pictures and citations point */

const PLAIN = new Set([
  "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "hr", "br", "em", "strong", "del", "u", "sub", "sup",
  "table", "thead", "tbody", "tr", "section",
]);
const COLOURS = /^(comment|string|number|keyword|function|type|constant|tag|attribute|punctuation|variable|heading|inserted|deleted)$/;
const ALERTS = /^(note|tip|important|warning|caution)$/;
const COPIED_MS = 1500;

/** @param {any} tree @param {Place} place @returns {Node} */
export function draw(tree, place) {
  if (!Array.isArray(tree)) return document.createTextNode(String(tree ?? ""));
  const [tag, given, ...children] = tree;
  const attributes = given ?? {};
  const inner = () => children.map((child) => draw(child, place));
  if (PLAIN.has(tag)) return h(tag, null, inner());
  switch (tag) {
    case "ol":
      return h("ol", { start: Number(attributes.start ?? 1) }, inner());
    case "li":
      return listItem(attributes, inner());
    case "blockquote":
      return h("blockquote", ALERTS.test(attributes.alert) ? { class: `alert alert-${attributes.alert}` } : null, inner());
    case "th":
    case "td":
      return cell(tag, attributes, inner());
    case "a":
      return link(attributes, inner(), place);
    case "img":
      return picture(attributes, place);
    case "code":
      return h("code", null, inner());
    case "span":
      return h("span", COLOURS.test(attributes.class) ? { class: `tok-${attributes.class}` } : null, inner());
    case "pre":
      return listing(attributes, children, place);
    case "math":
      return h(attributes.display ? "div.math" : "code.math", null, inner());
    case "cite":
      return citation(attributes.sids ?? []);
    default:
      return h("span", null, inner());
  }
}

/** @param {any[]} trees @param {Place} place */
export function prose(trees, place) {
  return h("div.prose", null, trees.map((tree) => draw(tree, place)));
}

/** @param {any} attributes @param {Node[]} inner */
function listItem(attributes, inner) {
  if (typeof attributes.checked !== "boolean") return h("li", null, inner);
  const label = attributes.checked ? "done" : "open";
  return h("li.task", null, h("span.box", { role: "img", "aria-label": label, "data-state": label }), inner);
}

/** @param {string} tag @param {any} attributes @param {Node[]} inner */
function cell(tag, attributes, inner) {
  const align = /^(left|center|right)$/.test(attributes.align) ? `align-${attributes.align}` : null;
  const span = (/** @type {string} */ name) => (attributes[name] > 1 ? Math.min(Number(attributes[name]), 1000) : null);
  return h(tag, { class: align, colspan: span("colspan"), rowspan: span("rowspan") }, inner);
}

/** @param {any} attributes @param {Node[]} inner @param {Place} place */
function link(attributes, inner, place) {
  const href = String(attributes.href ?? "");
  if (/^(fi|ar|tc|so):/.test(href)) return fileLink(href, inner);
  if (!/^(https?|mailto):/i.test(href) || !isSafeAddress(href)) return h("span.no-link", { title: href }, inner);
  return h("a", { href, target: "_blank", rel: "noopener noreferrer" }, inner);
}

/** @param {string} path @param {Node[] | string} inner */
export function fileLink(path, inner) {
  const show = () => {
    openFile.value = { path, seq: null };
    tab.value = "Files";
    pane.value = "inspector";
  };
  return h("button.link", { type: "button", onClick: show }, inner);
}

/** @param {any} attributes @param {Place} place */
function picture(attributes, place) {
  const alt = String(attributes.alt ?? "");
  const src = String(attributes.src ?? "");
  // A picture from elsewhere would tell that host who reads this.
  if (!/^fi:/.test(src)) return h("span.no-picture", null, "Picture not shown: ", alt || src);
  return h("img", { src: artifact(place.conversation, src), alt, loading: "lazy" });
}

/** A sentence of the server: what stands between backticks is code. @param {string} text */
export function sentence(text) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? h("code", null, part) : part));
}

/** @param {number[]} sids */
function citation(sids) {
  const show = () => {
    tab.value = "Sources";
    pane.value = "inspector";
  };
  return h("sup.cite", null, sids.map((sid) => h("button.link", { type: "button", "aria-label": `Source ${sid}`, onClick: show }, String(Number(sid)))));
}

/** Code with the name of its language and a button to copy it. @param {any} attributes @param {any[]} children @param {Place} place */
export function listing(attributes, children, place) {
  const code = h("code", null, children.map((child) => draw(child, place)));
  const language = attributes.language ? String(attributes.language) : "";
  return h(
    "div.listing",
    null,
    h("div.listing-head", null, h("span", null, language), copyButton(() => code.textContent ?? "")),
    h("pre", { tabindex: "0" }, code),
  );
}

/** @param {() => string} text */
export function copyButton(text) {
  const button = h("button.quiet", {
    type: "button",
    onClick: async () => {
      await navigator.clipboard?.writeText(text()).catch(() => {});
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
    },
  }, "Copy");
  return button;
}

/**
 * The difference between two texts.
 * @param {{ hunks: { header: string, lines: [string, string, number | null, number | null][] }[], added: number, removed: number, truncated?: number }} diff
 */
export function difference(diff) {
  if (diff.hunks.length === 0) return h("p.empty", null, "The two versions have the same text.");
  const kinds = /** @type {Record<string, string>} */ ({ "+": "added", "-": "removed", " ": "same" });
  const line = (/** @type {[string, string, number | null, number | null]} */ [kind, text, before, after]) =>
    h("tr", { class: kinds[kind] ?? "same" },
      h("td.number", { "data-line": before ?? "" }),
      h("td.number", { "data-line": after ?? "" }),
      h("td.sign", { "aria-label": kinds[kind] }, kind === " " ? "" : kind),
      h("td.text", null, text));
  return h("div.diff", null,
    h("p.diff-sum", null, h("span.plus", null, `+${count(diff.added)}`), " ", h("span.minus", null, `−${count(diff.removed)}`)),
    h("div.scroll", { tabindex: "0", role: "group", "aria-label": "Difference" },
      h("table", null, diff.hunks.map((hunk) =>
        h("tbody", null, h("tr.hunk", null, h("td", { colspan: 4 }, hunk.header)), hunk.lines.map(line))))),
    diff.truncated ? h("p.note", null, `${plural(diff.truncated, "more line")} not shown.`) : null);
}

/** Rows and columns of a CSV or JSON file. @param {{ columns: string[], rows: string[][], total: number }} table */
export function grid(table) {
  const numeric = table.columns.map((_, index) => table.rows.every((row) => /^-?[\d.,%\s]*$/.test(row[index] ?? "")));
  const side = (/** @type {number} */ index) => (numeric[index] ? { class: "align-right" } : null);
  return h("div.grid-table", null,
    h("div.scroll", { tabindex: "0", role: "group", "aria-label": "Table" },
      h("table", null,
        h("thead", null, h("tr", null, table.columns.map((name, index) => h("th", { scope: "col", ...side(index) }, name)))),
        h("tbody", null, table.rows.map((row) => h("tr", null, table.columns.map((_, index) => h("td", side(index), row[index] ?? ""))))))),
    table.total > table.rows.length
      ? h("p.note", null, `${count(table.rows.length)} of ${plural(table.total, "row")} shown.`)
      : h("p.note", null, plural(table.total, "row")));
}
