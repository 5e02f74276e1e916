// @ts-check
/**
 * The view layer: signals, elements that follow them, and keyed lists.
 *
 * Everything on the page is made of nodes. Text is only ever text: there is no way from here to a string that the
 * browser would parse as HTML, and an address is set only if following it cannot run anything.
 */
import { isSafeAddress } from "./address.js";

/** @typedef {{ run(): void, id: number, sources: Set<Signal<any>>, scope: Scope, dead: boolean }} Effect */
/** @typedef {{ cleanups: (() => void)[] }} Scope */
/** @typedef {Node | string | number | boolean | null | undefined | (() => any) | Signal<any> | Child[]} Child */

/** @type {Effect | null} */
let running = null;
/** @type {Scope | null} */
let scope = null;
/** @type {Set<Effect>} */
const queue = new Set();
let [depth, lastId] = [0, 0];

/** A value that effects follow. @template T */
export class Signal {
  /** @param {T} value */
  constructor(value) {
    this.current = value;
    /** @type {Set<Effect>} */
    this.followers = new Set();
  }

  /** The value; the running effect runs again when it changes. @returns {T} */
  get value() {
    if (running) {
      this.followers.add(running);
      running.sources.add(this);
    }
    return this.current;
  }

  set value(next) {
    if (Object.is(this.current, next)) return;
    this.current = next;
    for (const follower of this.followers) queue.add(follower);
    if (depth === 0) flush();
  }

  /** The value, without following it. @returns {T} */
  peek() {
    return this.current;
  }
}

/** @template T @param {T} value */
export const signal = (value) => new Signal(value);

/** Changes several signals; effects run once, afterwards. @template T @param {() => T} change @returns {T} */
export function batch(change) {
  depth += 1;
  try {
    return change();
  } finally {
    depth -= 1;
    if (depth === 0) flush();
  }
}

// Older effects first: what is derived is up to date before anything that was made later reads it.
function flush() {
  depth += 1;
  try {
    for (let rounds = 0; queue.size > 0; rounds += 1) {
      if (rounds > 1000) throw new Error("effects keep changing what they follow");
      const ready = [...queue].sort((a, b) => a.id - b.id)[0];
      queue.delete(ready);
      if (!ready.dead) ready.run();
    }
  } finally {
    depth -= 1;
  }
}

/** Runs `work` now and whenever a signal it read changes. Ends with the scope it was made in. @param {() => void} work */
export function effect(work) {
  /** @type {Effect} */
  const self = { id: (lastId += 1), sources: new Set(), scope: { cleanups: [] }, dead: false, run };
  function release() {
    for (const source of self.sources) source.followers.delete(self);
    self.sources.clear();
    dispose(self.scope);
  }
  function run() {
    release();
    during(self.scope, self, work);
  }
  onCleanup(() => {
    self.dead = true;
    release();
  });
  run();
}

/** A signal that follows from others. @template T @param {() => T} compute @returns {Signal<T>} */
export function derived(compute) {
  const result = signal(/** @type {any} */ (undefined));
  effect(() => {
    result.value = compute();
  });
  return result;
}

/** Runs without following anything. @template T @param {() => T} work */
export const untracked = (work) => during(scope, null, work);

/** When the scope ends. @param {() => void} work */
export function onCleanup(work) {
  scope?.cleanups.push(work);
}

/** Makes something that can be ended. @template T @param {() => T} make @returns {{ made: T, end: () => void }} */
export function root(make) {
  /** @type {Scope} */
  const own = { cleanups: [] };
  return { made: during(own, null, make), end: () => dispose(own) };
}

/** @template T @param {Scope | null} own @param {Effect | null} following @param {() => T} work @returns {T} */
function during(own, following, work) {
  const before = { scope, running };
  [scope, running] = [own, following];
  try {
    return work();
  } finally {
    ({ scope, running } = before);
  }
}

/** @param {Scope} own */
function dispose(own) {
  for (const cleanup of own.cleanups.splice(0).reverse()) cleanup();
}

const ADDRESSES = new Set(["href", "src", "action", "formaction", "data", "poster"]);
const REFUSED = new Set(["srcdoc", "innerHTML", "outerHTML", "style", "srcset"]);
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "indeterminate"]);

/** @param {Element} element @param {string} name @param {any} value */
function set(element, name, value) {
  if (PROPERTIES.has(name)) {
    const target = /** @type {any} */ (element);
    if (target[name] !== value) target[name] = value ?? (name === "value" ? "" : false);
  } else if (name === "vars") {
    for (const [key, text] of Object.entries(value)) {
      /** @type {HTMLElement} */ (element).style.setProperty(key, String(text));
    }
  } else if (value == null || value === false) element.removeAttribute(name);
  else if (ADDRESSES.has(name) && !isSafeAddress(String(value))) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const SVG = new Set(["svg", "path", "rect", "line", "circle", "g", "title"]);

/**
 * An element. Attributes and children that are functions or signals are followed; `on…` takes a listener.
 * @param {string} tag `name.class.class`
 * @param {Record<string, any> | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = SVG.has(name) ? document.createElementNS(SVG_NAMESPACE, name) : document.createElement(name);
  if (classes.length > 0) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (REFUSED.has(key)) throw new Error(`the attribute ${key} is not set from here`);
    if (/^on/i.test(key)) element.addEventListener(key.slice(2).toLowerCase(), value);
    else if (key === "ref") value(element);
    else if (typeof value === "function") effect(() => set(element, key, value()));
    else if (value instanceof Signal) effect(() => set(element, key, value.value));
    else set(element, key, value);
  }
  append(element, children);
  return /** @type {HTMLElement} */ (element);
}

/** @param {Element | DocumentFragment} parent @param {any} children */
export function append(parent, children) {
  for (const child of [children].flat(9)) {
    if (child == null || child === false || child === true) continue;
    if (child instanceof Node) parent.append(child);
    else if (typeof child === "function" || child instanceof Signal) parent.append(live(child));
    else parent.append(String(child));
  }
}

// What a function gives, between two marks, made again whenever it changes.
/** @param {(() => any) | Signal<any>} source */
function live(source) {
  const [from, to] = [document.createComment(""), document.createComment("")];
  const fragment = document.createDocumentFragment();
  fragment.append(from, to);
  effect(() => {
    const made = document.createDocumentFragment();
    append(made, source instanceof Signal ? source.value : source());
    while (from.nextSibling && from.nextSibling !== to) from.nextSibling.remove();
    to.before(made);
  });
  return fragment;
}

/**
 * Children that are kept as long as their keys are there, in the order of the items.
 * @template T
 * @param {HTMLElement} parent
 * @param {() => T[]} items
 * @param {(item: T) => string | number} key
 * @param {(item: Signal<T>) => Node} draw
 */
export function keyed(parent, items, key, draw) {
  /** @type {Map<string | number, { made: ChildNode, item: Signal<T>, end(): void }>} */
  const rows = new Map();
  onCleanup(() => rows.forEach((row) => row.end()));
  effect(() => {
    const next = items();
    untracked(() => {
      const left = new Set(rows.keys());
      /** @type {ChildNode | null} */
      let place = parent.firstChild;
      for (const item of next) {
        const name = key(item);
        let row = rows.get(name);
        if (row) row.item.value = item;
        else {
          const own = signal(item);
          row = { ...root(() => /** @type {ChildNode} */ (draw(own))), item: own };
          rows.set(name, row);
        }
        left.delete(name);
        if (row.made === place) place = place.nextSibling;
        else parent.insertBefore(row.made, place);
      }
      for (const name of left) {
        const row = rows.get(name);
        rows.delete(name);
        row?.end();
        row?.made.remove();
      }
    });
  });
}
