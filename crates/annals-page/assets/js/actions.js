// @ts-check
/**
 * What can be done with a whole conversation: fork, compare, export.
 */
import * as api from "./api.js";
import { openCompare } from "./compare.js";
import * as state from "./state.js";
import { h } from "./view.js";

export function actions() {
  return [
    h("button.secondary", { type: "button", onClick: forkHere, title: "f" }, "Fork here"),
    h("button.quiet.wide-only", { type: "button", onClick: openCompare }, "Compare"),
    h("a.quiet.wide-only", { href: () => (state.current.value ? api.conversation(state.current.value, "/export") : null), download: () => `${state.current.value ?? "conversation"}.annals` }, "Export"),
  ];
}

/** A conversation of its own that shares everything up to the position. */
export async function forkHere() {
  const id = state.current.peek();
  const at = state.moment.peek();
  if (id === null || at === 0) return;
  try {
    const fork = await api.post(api.conversation(id, "/fork"), { at });
    await state.readConversations();
    location.hash = `#/c/${fork.id}`;
  } catch (error) {
    state.fail(error);
  }
}
