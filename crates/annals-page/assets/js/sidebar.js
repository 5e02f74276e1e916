// @ts-check
/**
 * The left column: the conversations, and search across them.
 */
import * as api from "./api.js";
import { ago, firstLine, plural } from "./format.js";
import * as state from "./state.js";
import { derived, h, keyed, signal } from "./view.js";

const SEARCH_PAUSE_MS = 180;
const HIT_CHARS = 160;

const query = signal("");
/** @type {import("./view.js").Signal<any[] | null>} */
const hits = signal(/** @type {any[] | null} */ (null));
let pause = 0;

export function sidebar() {
  const list = h("ul.conversations", { "aria-label": "Conversations", hidden: () => hits.value !== null });
  keyed(list, () => shown.value, (item) => item.id, entry);
  return h("nav.sidebar", { "aria-label": "Conversations and search" },
    h("div.brand", null, h("img", { src: "/icon.svg", alt: "", width: 22, height: 22 }), h("span", null, "Annals"), themeButton()),
    h("button.primary.wide", { type: "button", onClick: create }, "New conversation"),
    h("input.search", { type: "search", "aria-label": "Search", placeholder: "Search", autocomplete: "off", spellcheck: "false", onInput: typed, onKeydown: escape, value: query }),
    list,
    () => (hits.value ? found(hits.value) : null),
    () => (state.conversations.value.length === 0 && hits.value === null ? h("p.empty", null, "No conversations yet. Start one, or import one that was exported.") : null),
    h("footer.side-foot", null,
      h("label.quiet.file-label", null, "Import", h("input.visually-hidden", { type: "file", accept: ".annals", onChange: importFile })),
      h("button.quiet", { type: "button", onClick: () => document.dispatchEvent(new CustomEvent("annals-keys")) }, "Keys ?")));
}

// A fork stands below the conversation it came from, as long as that one is there.
const shown = derived(() => {
  const items = state.conversations.value;
  const ids = new Set(items.map((item) => item.id));
  /** @type {Map<string, any[]>} */
  const forks = new Map();
  const roots = [];
  for (const item of items) {
    const from = item.lineage?.findLast((ancestor) => ancestor.operator === "fork")?.parent;
    if (!from || from === item.id || !ids.has(from)) roots.push(item);
    else forks.set(from, [...(forks.get(from) ?? []), item]);
  }
  /** @type {any[]} */
  const ordered = [];
  const place = (/** @type {any} */ item, /** @type {number} */ depth) => {
    ordered.push({ ...item, depth });
    for (const fork of forks.get(item.id) ?? []) place(fork, depth + 1);
  };
  for (const item of roots) place(item, 0);
  return ordered;
});

/** @param {import("./view.js").Signal<any>} item */
function entry(item) {
  const { id } = item.peek();
  return h("li", null,
    h("a.conversation", {
      href: `#/c/${id}`, "aria-current": () => (state.current.value === id ? "page" : null),
      class: () => `conversation depth-${Math.min(item.value.depth, 3)}`,
      onClick: () => (state.pane.value = "timeline"),
    },
    h("span.conversation-title", null, () => state.nameOf(item.value)),
    h("span.conversation-facts", null, () => `${item.value.depth > 0 ? "fork · " : ""}${plural(item.value.blocks, "block")} · ${ago(item.value.updated)}`)));
}

export async function create() {
  try {
    const { id } = await api.post("/v1/conversations", {});
    await state.readConversations();
    state.writeIn(id);
    location.hash = `#/c/${id}`;
    state.pane.value = "timeline";
  } catch (error) {
    state.fail(error);
  }
}

/** @param {Event} event */
function typed(event) {
  query.value = /** @type {HTMLInputElement} */ (event.target).value;
  clearTimeout(pause);
  pause = setTimeout(search, SEARCH_PAUSE_MS);
}

async function search() {
  const asked = query.peek().trim();
  if (asked === "") {
    hits.value = null;
    return;
  }
  try {
    const answer = await api.get(`/v1/search?q=${encodeURIComponent(asked)}`);
    if (query.peek().trim() === asked) hits.value = answer.items;
  } catch (error) {
    state.fail(error);
  }
}

/** @param {KeyboardEvent} event */
function escape(event) {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  query.value = "";
  hits.value = null;
  /** @type {HTMLElement} */ (event.target).blur();
}

/** @param {any[]} items */
function found(items) {
  const titles = state.titlesById();
  const byTitle = state.conversations.value.filter((item) => (item.title ?? "").toLowerCase().includes(query.peek().trim().toLowerCase()));
  if (items.length === 0 && byTitle.length === 0) return h("p.empty", null, `Nothing found for “${query.peek()}”.`);
  return h("ul.hits", { "aria-label": "Search results" },
    byTitle.map((item) => h("li", null, h("a.hit", { href: `#/c/${item.id}` }, h("span.conversation-title", null, item.title)))),
    items.map((item) => {
      const id = item.conversation_id ?? item.conversation;
      return h("li", null, h("a.hit", { href: item.seq ? `#/c/${id}@${item.seq}` : `#/c/${id}`, onClick: () => (state.pane.value = "timeline") },
        h("span.conversation-title", null, titles.get(id) ?? id),
        h("span.hit-text", null, firstLine(item.text ?? "", HIT_CHARS)),
        h("span.conversation-facts", null, [item.role, item.ts ? ago(item.ts) : null].filter(Boolean).join(" · "))));
    }));
}

/** @param {Event} event */
async function importFile(event) {
  const input = /** @type {HTMLInputElement} */ (event.target);
  const file = input.files?.[0];
  input.value = "";
  if (!file) return;
  try {
    const { id } = await api.post("/v1/import", file);
    await state.readConversations();
    location.hash = `#/c/${id}`;
  } catch (error) {
    state.fail(error);
  }
}

const THEMES = ["system", "light", "dark"];

function themeButton() {
  const theme = signal(localStorage.getItem("annals.theme") ?? "system");
  const apply = (/** @type {string} */ name) => {
    theme.value = name;
    document.documentElement.dataset.theme = name;
    localStorage.setItem("annals.theme", name);
  };
  apply(theme.peek());
  const next = () => apply(THEMES[(THEMES.indexOf(theme.peek()) + 1) % THEMES.length]);
  return h("button.quiet.theme", { type: "button", "aria-label": () => `Theme: ${theme.value}`, title: () => `Theme: ${theme.value}`, onClick: next }, () => ({ system: "◐", light: "○", dark: "●" })[theme.value]);
}
