// @ts-check
/**
 * The page begins here: three columns, the address, the keys.
 */
import { compareDialog } from "./compare.js";
import { composer } from "./composer.js";
import { inspector } from "./inspector.js";
import { keysDialog } from "./keys.js";
import { serversDialog } from "./servers.js";
import { create, sidebar } from "./sidebar.js";
import * as state from "./state.js";
import { past } from "./strip.js";
import { timeline } from "./timeline.js";
import { effect, h, root } from "./view.js";

/** Where the address says we are. */
function route() {
  const found = /^#\/c\/([^@]+)(?:@(\d+))?$/.exec(location.hash);
  if (!found) return void state.open(null, null);
  let id = found[1];
  try {
    id = decodeURIComponent(id);
  } catch {
    // Not an escape: the name as it stands.
  }
  void state.open(id, found[2] ? Math.max(1, Number(found[2])) : null);
}

function welcome() {
  return h("section.welcome", { hidden: () => state.current.value !== null, "aria-label": "Welcome" },
    h("h1", null, "What should be done?"),
    h("p", null, "Everything that happens is written down: you can go back to any moment, see what the model saw, and go on from there another way."),
    h("div.buttons", null,
      h("button.primary", { type: "button", onClick: create }, "Begin a conversation"),
      h("button.secondary.only-narrow", { type: "button", "aria-label": "Show conversations", onClick: () => (state.pane.value = "list") }, "Conversations")),
    h("p.faint.wide-only", null, "Press ", h("kbd", null, "?"), " for all keys."));
}

function trouble() {
  return h("div.trouble", { role: "alert" }, () => (state.trouble.value ? h("p", null, state.trouble.value, h("button.quiet", { type: "button", onClick: () => (state.trouble.value = "") }, "Dismiss")) : null));
}

root(() => {
  const app = document.getElementById("app");
  app?.append(
    sidebar(),
    h("main.middle", null, trouble(), welcome(), timeline(), past(), composer()),
    inspector(),
    keysDialog(),
    compareDialog(),
    serversDialog(),
  );
  effect(() => {
    document.body.dataset.pane = state.current.value === null && state.pane.value !== "timeline" ? "list" : state.pane.value;
  });
  effect(() => {
    document.title = state.title.value ? `${state.title.value} · Annals` : "Annals";
  });
});
addEventListener("hashchange", route);
void state.readConversations();
route();
