// @ts-check
/**
 * What a person writes: a prompt with its files, a word to the running turn, an old prompt in other words.
 */
import * as api from "./api.js";
import { size } from "./format.js";
import { serversButton } from "./servers.js";
import * as state from "./state.js";
import { batch, effect, h, signal, untracked } from "./view.js";

/** @typedef {{ id: number, name: string, blob: Blob }} Attached */

/** @type {import("./view.js").Signal<Attached[]>} */
const files = signal(/** @type {Attached[]} */ ([]));
const draft = signal("");
const sending = signal(false);
/** The prompt that is being edited. @type {import("./view.js").Signal<{ seq: number } | null>} */
const editing = signal(/** @type {{ seq: number } | null} */ (null));
let lastId = 0;
/** @type {HTMLTextAreaElement | null} */
let box = null;

const draftKey = () => `annals.draft.${state.current.peek() ?? ""}`;

export function composer() {
  const picker = h("input.visually-hidden", { type: "file", multiple: true, tabindex: "-1", "aria-hidden": "true", onChange: picked });
  const form = h("form.composer", { "aria-label": "Write", hidden: () => state.current.value === null, onSubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } },
    () => (editing.value ? h("div.editing", null, `Editing the prompt of block ${editing.value.seq}. The old answer stays in this conversation; the new one goes on in a fork.`, h("button.quiet", { type: "button", onClick: stopEditing }, "Keep the old one")) : null),
    () => attached(),
    h("div.compose-row", null,
      h("button.icon-button", { type: "button", "aria-label": "Attach", title: "Attach", onClick: () => picker.click() }, "+"),
      serversButton({ attach, insert }),
      picker,
      h("textarea", {
        rows: 1, "aria-label": "Message", value: draft, ref: (/** @type {HTMLTextAreaElement} */ element) => (box = element),
        placeholder: () => (state.turn.value.running ? "Say something to the running turn" : "What should be done?"),
        onInput: typed, onKeydown: key, onPaste: pasted,
      }),
      () => (state.turn.value.running ? h("button.danger", { type: "button", onClick: stop, title: "Esc" }, "Stop") : null),
      h("button.primary", { type: "submit", disabled: () => sending.value || (draft.value.trim() === "" && files.value.length === 0) }, () => (state.turn.value.running ? "Steer" : "Send"))),
    h("p.hint", null, () => (state.position.value === null ? "" : `You look at block ${state.position.value}; what you send goes to the end.`)));
  form.querySelector("button[type=submit]")?.setAttribute("aria-label", "Send");
  effect(() => {
    const id = state.current.value;
    untracked(() => batch(() => {
      draft.value = id === null ? "" : (localStorage.getItem(draftKey()) ?? "");
      files.value = [];
      editing.value = null;
    }));
    // The form is shown by an effect that was made before this one.
    if (id !== null && id === state.toWriteIn) {
      state.writeIn(null);
      box?.focus();
    }
  });
  effect(() => {
    draft.value;
    if (box) grow(box);
  });
  acceptDrops();
  return form;
}

function attached() {
  if (files.value.length === 0) return null;
  return h("ul.attached", { "aria-label": "Attachments" }, files.value.map((file) =>
    h("li", null, h("span", null, file.name), h("span.file-facts", null, size(file.blob.size)),
      h("button.quiet", { type: "button", "aria-label": `Remove ${file.name}`, onClick: () => (files.value = files.peek().filter((other) => other !== file)) }, "×"))));
}

/** @param {Event} event */
function typed(event) {
  keep(/** @type {HTMLTextAreaElement} */ (event.target).value);
}

/** @param {string} text */
function keep(text) {
  draft.value = text;
  if (text === "") localStorage.removeItem(draftKey());
  else localStorage.setItem(draftKey(), text);
}

const BOX_MAX_PX = 240;

/** @param {HTMLTextAreaElement} element */
function grow(element) {
  element.style.height = "auto";
  element.style.height = `${Math.min(element.scrollHeight, BOX_MAX_PX)}px`;
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
}

/** @param {ClipboardEvent} event */
function pasted(event) {
  const items = [...(event.clipboardData?.files ?? [])];
  if (items.length === 0) return;
  event.preventDefault();
  attach(items);
}

/** @param {Event} event */
function picked(event) {
  const input = /** @type {HTMLInputElement} */ (event.target);
  attach([...(input.files ?? [])]);
  input.value = "";
}

/** @param {File[]} items */
function attach(items) {
  const fresh = items.map((file) => ({ id: (lastId += 1), name: file.name || "pasted.png", blob: file }));
  files.value = [...files.peek(), ...fresh];
  box?.focus();
}

/** Writes behind what is there already. @param {string} text */
function insert(text) {
  const before = draft.peek().trimEnd();
  keep(before === "" ? text : `${before}\n\n${text}`);
  box?.focus();
}

function acceptDrops() {
  const over = (/** @type {boolean} */ is) => document.body.classList.toggle("dropping", is && state.current.peek() !== null);
  const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files") ?? false;
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => { if (event.relatedTarget === null) over(false); });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    over(false);
    if (state.current.peek() !== null) attach([...(event.dataTransfer?.files ?? [])]);
  });
}

async function send() {
  const id = state.current.peek();
  const text = draft.peek().trim();
  if (id === null || sending.peek() || (text === "" && files.peek().length === 0)) return;
  const { running, turn } = state.turn.peek();
  sending.value = true;
  try {
    if (editing.peek()) await sendEdited(id, text);
    else if (running && turn && files.peek().length === 0) await steer(id, turn, text);
    else await prompt(id, text);
    localStorage.removeItem(`annals.draft.${id}`);
    batch(() => {
      if (state.current.peek() === id) draft.value = "";
      files.value = [];
      state.trouble.value = "";
    });
    if (state.position.peek() !== null) state.goTo(null);
  } catch (error) {
    state.fail(error);
  } finally {
    sending.value = false;
    box?.focus();
  }
}

/** @param {string} id @param {string} turn @param {string} text */
async function steer(id, turn, text) {
  try {
    await api.post(api.conversation(id, `/turns/${encodeURIComponent(turn)}/steer`), { text });
  } catch (error) {
    // The turn ended while this was written: then it is the next prompt.
    if (!(error instanceof api.Problem) || error.code !== "turn_ended") throw error;
    await prompt(id, text);
  }
}

/** @param {string} id @param {string} text */
async function prompt(id, text) {
  const path = api.conversation(id, "/turns");
  if (files.peek().length === 0) {
    await api.post(path, { prompt: text });
    return;
  }
  const form = new FormData();
  form.append("prompt", text);
  for (const file of files.peek()) form.append("attachments", file.blob, file.name);
  await api.post(path, form);
}

/** The fork ends before the old prompt's turn; the new prompt begins its own. @param {string} id @param {string} text */
async function sendEdited(id, text) {
  const seq = editing.peek()?.seq ?? 0;
  const { id: target } = await api.post(api.conversation(id, "/fork"), { at: (await turnStart(seq)) - 1 });
  await prompt(target, text);
  editing.value = null;
  await state.readConversations();
  location.hash = `#/c/${target}`;
}

/** Where the turn of a prompt begins. @param {number} seq */
async function turnStart(seq) {
  for (let at = seq; at > 0; at -= 1) {
    const block = await state.blocks?.fetch(at);
    if (!block || block.type === "turn.header") return at;
  }
  return 1;
}

/** @param {import("./types.js").Block} block */
export function editPrompt(block) {
  batch(() => {
    editing.value = { seq: block.seq };
    draft.value = block.text ?? "";
  });
  box?.focus();
}

function stopEditing() {
  batch(() => {
    editing.value = null;
    draft.value = localStorage.getItem(draftKey()) ?? "";
  });
}

/** Ends the running turn. */
export async function stop() {
  const id = state.current.peek();
  const { turn } = state.turn.peek();
  if (id === null || !turn) return;
  try {
    await api.post(api.conversation(id, `/turns/${encodeURIComponent(turn)}/cancel`));
  } catch (error) {
    state.fail(error);
  }
}

export function focusBox() {
  box?.focus();
}
