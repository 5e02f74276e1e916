// @ts-check
/**
 * What calls wait to be told by a person: a card above the timeline with a form for what is wanted.
 */
import * as api from "./api.js";
import { clock, firstLine, parse } from "./format.js";
import * as state from "./state.js";
import { h, signal } from "./view.js";

/** @typedef {import("./types.js").Block} Block */
/**
 * One thing that is wanted. `read` gives what was entered, or undefined where nothing was.
 * @typedef {{ name: string, row: HTMLElement, read: () => any }} Field
 */

const GIST_CHARS = 120;

/** A question where it stands in the timeline. @param {Block} block */
export function questionRow(block) {
  const request = parse(block.text) ?? {};
  const isOpen = () => state.questions.value.some((item) => item.input_id === request.input_id);
  const toCard = () => /** @type {HTMLElement | null} */ (document.querySelector(".pinned .question"))?.focus();
  return h("div.mark", null, h("span.kind", null, "asked"), h("span.what", null, firstLine(request.message ?? "", GIST_CHARS)),
    () => (isOpen() ? h("button.link", { type: "button", onClick: toCard }, "Answer") : null));
}

/** What was said to a question. @param {Block} block */
export function answerRow(block) {
  const said = parse(block.text) ?? {};
  const words = said.action === "accept" ? (said.content === undefined ? "agreed" : firstLine(JSON.stringify(said.content), GIST_CHARS)) : `${said.action}d`;
  return h("div.mark", null, h("span.kind", null, "answered"), h("span.what", null, words), h("span.faint", null, said.by ? `by ${said.by}` : ""));
}

/** @param {any} request @param {string} conversation */
export function questionCard(request, conversation) {
  const busy = signal(false);
  const wrong = signal("");
  const fields = fieldsOf(request.schema);
  const tell = async (/** @type {any} */ body) => {
    busy.value = true;
    wrong.value = "";
    try {
      await api.post(api.conversation(conversation, `/inputs/${encodeURIComponent(request.input_id)}`), body);
    } catch (error) {
      // What does not fit is said here, beside what was entered; the question stays.
      wrong.value = api.sentence(error);
    }
    busy.value = false;
    await state.readWaiting();
  };
  const answer = (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const entered = fields.map((field) => [field.name, field.read()]).filter(([, value]) => value !== undefined);
      void tell(request.schema ? { content: Object.fromEntries(entered) } : {});
    } catch (error) {
      wrong.value = api.sentence(error);
    }
  };
  return h("div.approval.question", { role: "group", tabindex: "-1", "aria-label": `Question of ${request.tool}` },
    h("p.approval-head", null, h("strong", null, request.tool), " asks"),
    h("p.prose.plain", null, request.message ?? ""),
    pageLink(request.url),
    request.expires ? h("p.faint", null, `Lapses at ${clock(request.expires)}`) : null,
    h("form", { onSubmit: answer },
      fields.map((field) => field.row),
      () => (wrong.value ? h("p.sentence-error", { role: "alert" }, wrong.value) : null),
      h("div.buttons", null,
        h("button.primary", { type: "submit", disabled: busy }, request.schema ? "Answer" : "Agree"),
        h("button.danger", { type: "button", disabled: busy, title: "It is told that you will not say", onClick: () => tell({ action: "decline" }) }, "Decline"))));
}

/** The page that a person is to open, by a click and in a place of its own. @param {any} url */
function pageLink(url) {
  if (typeof url !== "string" || !URL.canParse(url)) return null;
  const { protocol, host } = new URL(url);
  if (protocol !== "https:" && protocol !== "http:") return null;
  return h("p", null, h("a.page-link", { href: url, target: "_blank", rel: "noopener noreferrer" }, "Open a page of ", h("strong", null, host)));
}

/** A field for each property of an object; JSON for what has another form. @param {any} schema @returns {Field[]} */
function fieldsOf(schema) {
  const required = new Set(Array.isArray(schema?.required) ? schema.required : []);
  return Object.entries(schema?.properties ?? {}).map(([name, property]) => field(name, property ?? {}, required.has(name)));
}

/** @param {string} name @param {any} property @param {boolean} isRequired @returns {Field} */
function field(name, property, isRequired) {
  const { control, read } = controlOf(property, isRequired);
  const label = h("label.field", null,
    h("span.field-name", null, property.title ?? name, isRequired ? null : h("span.faint", null, " (if you like)")),
    control,
    property.description ? h("span.faint", null, property.description) : null);
  return { name, row: label, read };
}

const NUMBERS = new Set(["number", "integer"]);
const FORMATS = /** @type {Record<string, string>} */ ({ email: "email", uri: "url", date: "date" });

/** @param {any} property @param {boolean} isRequired @returns {{ control: HTMLElement, read: () => any }} */
function controlOf(property, isRequired) {
  const usual = property.default;
  const choices = choicesOf(property);
  if (choices) {
    const none = isRequired && usual !== undefined ? [] : [h("option", { value: "" }, "")];
    const control = /** @type {HTMLSelectElement} */ (h("select", { required: isRequired },
      none, choices.map(([value, title]) => h("option", { value, selected: value === usual }, title))));
    return { control, read: () => (control.value === "" ? undefined : control.value) };
  }
  if (property.type === "boolean") {
    const control = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: usual === true }));
    return { control, read: () => control.checked };
  }
  if (property.type === "string" || NUMBERS.has(property.type)) {
    const isNumber = NUMBERS.has(property.type);
    const control = /** @type {HTMLInputElement} */ (h("input", {
      type: isNumber ? "number" : (FORMATS[property.format] ?? "text"), required: isRequired, value: usual === undefined ? "" : String(usual),
      step: property.type === "integer" ? "1" : "any", min: property.minimum, max: property.maximum, minlength: property.minLength, maxlength: property.maxLength, autocomplete: "off",
    }));
    return { control, read: () => (control.value === "" ? undefined : isNumber ? Number(control.value) : control.value) };
  }
  const control = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 3, required: isRequired, placeholder: "JSON", spellcheck: "false" }));
  if (usual !== undefined) control.value = JSON.stringify(usual);
  return { control, read: () => (control.value.trim() === "" ? undefined : readJson(control.value)) };
}

/** @param {string} text */
function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`“${firstLine(text, GIST_CHARS)}” is no JSON.`);
  }
}

/** Values to choose from, with what they are called. @param {any} property @returns {[string, string][] | null} */
function choicesOf(property) {
  if (property.type !== undefined && property.type !== "string") return null;
  if (Array.isArray(property.enum)) return property.enum.map((/** @type {string} */ value, /** @type {number} */ at) => [value, property.enumNames?.[at] ?? value]);
  if (Array.isArray(property.oneOf)) return property.oneOf.map((/** @type {any} */ one) => [one.const, one.title ?? one.const]);
  return null;
}
