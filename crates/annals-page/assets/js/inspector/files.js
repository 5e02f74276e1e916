// @ts-check
/**
 * Files of the conversation as of the position: versions, what changed between them, and a look at each.
 */
import * as api from "../api.js";
import { clock, count, extension, fileName, plural, size } from "../format.js";
import * as state from "../state.js";
import { copyButton, difference, grid, listing, prose } from "../tree.js";
import { h, onCleanup, signal } from "../view.js";

/** @param {import("../inspector.js").Moment} moment */
export function filesPanel(moment) {
  const files = moment.facts.files;
  if (files.length === 0) return h("p.empty", null, "No files yet. What is attached or written shows up here, every version of it.");
  return h("div.files", null, () => {
    const chosen = files.find((/** @type {any} */ file) => file.path === state.openFile.value?.path);
    return chosen ? fileView(moment, chosen) : fileList(files);
  });
}

/** @param {any[]} files */
function fileList(files) {
  return h("ul.file-list", { "aria-label": "Files" }, files.map((file) => {
    const last = file.versions[file.versions.length - 1];
    return h("li", null, h("button.file-entry", { type: "button", onClick: () => (state.openFile.value = { path: file.path, seq: null }) },
      h("span.file-type", { "aria-hidden": "true" }, extension(file.path)),
      h("span.file-name", null, fileName(file.path)),
      h("span.file-facts", null, `${file.mime} · ${size(last.size_bytes)} · ${plural(file.versions.length, "version")}`)));
  }));
}

/** @param {import("../inspector.js").Moment} moment @param {any} file */
function fileView(moment, file) {
  const { versions } = file;
  const asked = state.openFile.peek()?.seq;
  const start = Math.max(0, versions.findIndex((/** @type {any} */ version) => version.seq === asked));
  const index = signal(asked && versions.some((/** @type {any} */ version) => version.seq === asked) ? start : versions.length - 1);
  const mode = signal("preview");
  const version = () => versions[index.value];
  return h("div.file-view", null,
    h("header", null,
      h("button.quiet", { type: "button", onClick: () => (state.openFile.value = null) }, "← All files"),
      h("h2", null, fileName(file.path)),
      h("p.path", null, h("code", null, file.path), copyButton(() => file.path))),
    h("div.version-row", null,
      h("label", null, "Version ", h("select", { "aria-label": "Version", value: () => String(index.value), onChange: (/** @type {any} */ event) => (index.value = Number(event.target.value)) },
        versions.map((/** @type {any} */ item, /** @type {number} */ at) => h("option", { value: String(at), selected: at === index.peek() }, `${at + 1} · block ${count(item.seq)} · ${clock(item.ts)}`)))),
      modes(mode, () => index.value > 0),
      h("a.quiet", { href: () => api.artifact(moment.conversation, file.path, { seq: version().seq, download: 1 }), download: fileName(file.path) }, "Download")),
    () => (mode.value === "diff" && index.value > 0 ? diffView(moment, file, versions[index.value - 1], version()) : preview(moment, file, version())));
}

/** @param {import("../view.js").Signal<string>} mode @param {() => boolean} canDiff */
function modes(mode, canDiff) {
  const button = (/** @type {string} */ name, /** @type {string} */ key) =>
    h("button.segment", { type: "button", "aria-pressed": () => String(mode.value === key), disabled: () => key === "diff" && !canDiff(), onClick: () => (mode.value = key) }, name);
  return h("div.segments", { role: "group", "aria-label": "Show" }, button("Preview", "preview"), button("Difference", "diff"));
}

/** Something that is read, then drawn. @param {string} path @param {(answer: any) => any} draw */
function reading(path, draw) {
  const answer = signal(/** @type {any} */ (null));
  const failed = signal("");
  api.get(path).then((value) => (answer.value = value), (error) => (failed.value = api.sentence(error)));
  return h("div.reading", null, () => (failed.value ? h("p.sentence-error", null, failed.value) : answer.value ? draw(answer.value) : h("p.empty", null, "Reading.")));
}

/** @param {import("../inspector.js").Moment} moment @param {any} file @param {any} before @param {any} after */
function diffView(moment, file, before, after) {
  const query = new URLSearchParams({ path: file.path, from: String(before.seq), to: String(after.seq) });
  return reading(api.conversation(moment.conversation, `/diff?${query}`), difference);
}

/** @param {import("../inspector.js").Moment} moment @param {any} file @param {any} version */
function preview(moment, file, version) {
  const { conversation } = moment;
  const address = api.artifact(conversation, file.path, { seq: version.seq });
  const name = fileName(file.path);
  if (/^image\/(png|jpeg|gif|webp)$/.test(version.mime)) return h("figure.picture", null, h("img", { src: address, alt: name }));
  if (version.mime === "application/pdf") return pdfPages(conversation, file.path, version.seq, address);
  // Drawings and pages of strangers run in a frame without an origin, and their answer forbids everything as well.
  if (/^(image\/svg\+xml|text\/html)$/.test(version.mime)) return h("iframe.foreign", { src: address, sandbox: "", title: name });
  const query = new URLSearchParams({ path: file.path, seq: String(version.seq) });
  return reading(api.conversation(conversation, `/preview?${query}`), (answer) => drawn(answer, conversation, address));
}

const PDF_PAGES_SHOWN = 60;

/** The pages as pictures, drawn by the server: browsers of phones show no PDF inside a page. @param {string} conversation @param {string} path @param {number} seq @param {string} address */
function pdfPages(conversation, path, seq, address) {
  const pages = signal(0);
  const first = signal("");
  const failed = signal("");
  const width = Math.min(1600, Math.round(Math.min(innerWidth, 800) * Math.min(devicePixelRatio, 2)));
  const source = (/** @type {number} */ number) => api.conversation(conversation, `/pdf?${new URLSearchParams({ path, seq: String(seq), number: String(number), width: String(width) })}`);
  api.picture(source(1)).then(
    (answer) => { first.value = answer.address; pages.value = Number(answer.headers.get("annals-pages")); },
    (error) => (failed.value = api.sentence(error)),
  );
  onCleanup(() => URL.revokeObjectURL(first.peek()));
  const picture = (/** @type {number} */ number) => h("img.pdf-page", { src: number === 1 ? first.peek() : source(number), alt: `Page ${number} of ${fileName(path)}`, loading: number === 1 ? null : "lazy", "data-page": number });
  return h("div.document", null,
    () => (failed.value ? h("p.sentence-error", null, failed.value) : pages.value === 0 ? h("p.empty", null, "Drawing the pages.") : null),
    () => Array.from({ length: Math.min(pages.value, PDF_PAGES_SHOWN) }, (_, at) => picture(at + 1)),
    h("p.note", null, () => (pages.value > PDF_PAGES_SHOWN ? `${plural(pages.value - PDF_PAGES_SHOWN, "more page")} not drawn. ` : pages.value > 0 ? `${plural(pages.value, "page")}. ` : ""), h("a", { href: address, target: "_blank", rel: "noopener" }, "Open in the browser's own viewer")));
}

/** @param {any} answer @param {string} conversation @param {string} address */
function drawn(answer, conversation, address) {
  const rest = answer.truncated_bytes ? h("p.note", null, `${size(answer.truncated_bytes)} more are not shown; `, h("a", { href: address }, "open the whole file"), ".") : null;
  switch (answer.kind) {
    case "markdown":
      return [prose(answer.tree, { conversation }), rest];
    case "table":
      return [grid(answer.table), rest];
    case "code": {
      const [, attributes, ...children] = answer.tree;
      return [listing(attributes ?? {}, children, { conversation }), rest];
    }
    case "text":
      return [h("pre.plain", { tabindex: "0" }, answer.text), rest];
    default:
      return h("p.empty", null, "This kind of file has no preview. Download it to open it.");
  }
}
