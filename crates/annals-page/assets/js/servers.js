// @ts-check
/**
 * What MCP servers have for people: a resource to send with the message, a prompt to begin it with. A dialog of its own,
 * opened from where one writes. Every word in it is a stranger's.
 */
import * as api from "./api.js";
import { h, signal } from "./view.js";

/** @typedef {{ uri: string, name: string, description?: string, media_type?: string }} Resource */
/** @typedef {{ name: string, description?: string, is_required: boolean }} Argument */
/** @typedef {{ name: string, description?: string, arguments: Argument[] }} Prompt */
/** @typedef {{ attach: (files: File[]) => void, insert: (text: string) => void }} Target */

/** @type {import("./view.js").Signal<string[]>} */
const servers = signal(/** @type {string[]} */ ([]));
const chosen = signal("");
/** What the chosen server has. @type {import("./view.js").Signal<{ resources: Resource[], prompts: Prompt[] } | null>} */
const offer = signal(/** @type {{ resources: Resource[], prompts: Prompt[] } | null} */ (null));
/** The prompt that is being filled in. @type {import("./view.js").Signal<Prompt | null>} */
const filling = signal(/** @type {Prompt | null} */ (null));
const filter = signal("");
const wrong = signal("");
const busy = signal("");
/** @type {Target | null} */
let target = null;

const path = (/** @type {string} */ rest) => `/v1/mcp/servers/${encodeURIComponent(chosen.peek())}/${rest}`;

/** The way to the dialog, where there are servers. @param {Target} to */
export function serversButton(to) {
  void readServers();
  const open = () => {
    target = to;
    dialog()?.showModal();
    if (offer.peek() === null) void choose(chosen.peek() || servers.peek()[0]);
  };
  return () => (servers.value.length === 0 ? null : h("button.icon-button", { type: "button", "aria-label": "From a server", title: "Resources and prompts of MCP servers", onClick: open }, "@"));
}

export function serversDialog() {
  return h("dialog.servers", { "aria-label": "From a server" },
    h("header", null, h("h2", null, "From a server"), picker(), h("button.quiet", { type: "button", onClick: close }, "Close")),
    () => (busy.value ? h("p.faint", { role: "status" }, busy.value) : null),
    () => (wrong.value ? h("p.sentence-error", { role: "alert" }, wrong.value) : null),
    () => (filling.value ? promptForm(filling.value) : lists()));
}

function dialog() {
  return /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog.servers"));
}

function close() {
  dialog()?.close();
}

async function readServers() {
  try {
    const listed = await api.get("/v1/mcp/servers");
    servers.value = listed.items.map((/** @type {{ name: string }} */ server) => server.name);
  } catch {
    // Without them the page does everything else.
    servers.value = [];
  }
}

function picker() {
  return h("select", { "aria-label": "Server", onChange: (/** @type {any} */ event) => choose(event.target.value) },
    () => servers.value.map((name) => h("option", { value: name, selected: name === chosen.value }, name)));
}

/** Shows what a server has. It may have to start first. @param {string} name */
async function choose(name) {
  chosen.value = name;
  offer.value = null;
  filling.value = null;
  filter.value = "";
  await doing(`Asking ${name}…`, async () => {
    const [resources, prompts] = await Promise.all([api.get(path("resources")), api.get(path("prompts"))]);
    if (chosen.peek() === name) offer.value = { resources: resources.items, prompts: prompts.items };
  });
}

/** Does something that may fail, and says both. @param {string} what @param {() => Promise<void>} act */
async function doing(what, act) {
  busy.value = what;
  wrong.value = "";
  try {
    await act();
  } catch (error) {
    wrong.value = api.sentence(error);
  } finally {
    busy.value = "";
  }
}

function lists() {
  const has = offer.value;
  if (has === null) return null;
  const fits = (/** @type {{ name: string, description?: string, uri?: string }} */ item) => `${item.name} ${item.uri ?? ""} ${item.description ?? ""}`.toLowerCase().includes(filter.value.toLowerCase());
  return h("div.servers-lists", null,
    h("input", { type: "search", "aria-label": "Filter", placeholder: "Filter", value: filter, onInput: (/** @type {any} */ event) => (filter.value = event.target.value) }),
    h("h3", null, "Resources"),
    has.resources.length === 0 ? h("p.faint", null, "It lists none.") : h("ul", { "aria-label": "Resources" }, () => has.resources.filter(fits).map(resourceRow)),
    h("h3", null, "Prompts"),
    has.prompts.length === 0 ? h("p.faint", null, "It has none.") : h("ul", { "aria-label": "Prompts" }, () => has.prompts.filter(fits).map(promptRow)));
}

/** @param {Resource} resource */
function resourceRow(resource) {
  return h("li", null,
    h("div", null, h("strong", null, resource.name), h("span.faint", null, resource.media_type ?? "")),
    h("code", null, resource.uri),
    resource.description ? h("p.faint", null, resource.description) : null,
    h("button.secondary", { type: "button", disabled: () => busy.value !== "", "aria-label": `Attach ${resource.name}`, onClick: () => attach(resource) }, "Attach"));
}

/** @param {Prompt} prompt */
function promptRow(prompt) {
  const use = () => (prompt.arguments.length === 0 ? insert(prompt, {}) : (filling.value = prompt));
  return h("li", null,
    h("div", null, h("strong", null, prompt.name), h("span.faint", null, prompt.arguments.map((argument) => argument.name).join(", "))),
    prompt.description ? h("p.faint", null, prompt.description) : null,
    h("button.secondary", { type: "button", disabled: () => busy.value !== "", "aria-label": `Use ${prompt.name}`, onClick: use }, "Use"));
}

/** What a prompt has to be told. @param {Prompt} prompt */
function promptForm(prompt) {
  const fields = prompt.arguments.map((argument) => {
    const control = /** @type {HTMLInputElement} */ (h("input", { required: argument.is_required, autocomplete: "off" }));
    const row = h("label.field", null,
      h("span.field-name", null, argument.name, argument.is_required ? null : h("span.faint", null, " (if you like)")),
      control,
      argument.description ? h("span.faint", null, argument.description) : null);
    return { name: argument.name, control, row };
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const given = fields.filter((field) => field.control.value !== "").map((field) => [field.name, field.control.value]);
    void insert(prompt, Object.fromEntries(given));
  };
  return h("form.question", { "aria-label": prompt.name, onSubmit: submit },
    h("h3", null, prompt.name),
    prompt.description ? h("p.faint", null, prompt.description) : null,
    fields.map((field) => field.row),
    h("div.buttons", null,
      h("button.primary", { type: "submit", disabled: () => busy.value !== "" }, "Insert"),
      h("button.quiet", { type: "button", onClick: () => (filling.value = null) }, "Back")));
}

/** Puts a resource beside the message. @param {Resource} resource */
function attach(resource) {
  return doing(`Reading ${resource.name}…`, async () => {
    const read = await api.get(`${path("resource")}?${new URLSearchParams({ uri: resource.uri })}`);
    // Closing gives the focus back to the button; then it goes to where one writes.
    close();
    target?.attach(read.items.map((/** @type {{ name: string, data: string }} */ item) => new File([bytes(item.data)], item.name)));
  });
}

/** Writes a prompt into the message; it is sent when the person sends it. @param {Prompt} prompt @param {Record<string, string>} given */
function insert(prompt, given) {
  return doing(`Asking for ${prompt.name}…`, async () => {
    const { text } = await api.post(path("prompt"), { name: prompt.name, arguments: given });
    filling.value = null;
    close();
    target?.insert(text);
  });
}

/** @param {string} base64 */
function bytes(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
