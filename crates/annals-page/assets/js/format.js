// @ts-check
/**
 * Numbers, times and names as people read them.
 */

const COUNT = new Intl.NumberFormat("en-US");
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const NANO = 1e-9;

/** @param {number} value */
export function count(value) {
  return COUNT.format(value);
}

/** @param {number} value */
export function short(value) {
  if (value < 1000) return String(value);
  if (value < 10_000) return `${(value / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (value < 1_000_000) return `${Math.round(value / 1000)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} KB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** @param {number} ms */
export function elapsed(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** @param {number} nanousd */
export function money(nanousd) {
  const usd = nanousd * NANO;
  if (usd === 0) return "$0";
  if (usd < 0.0001) return "<$0.0001";
  return `$${usd < 0.01 ? usd.toFixed(4) : usd < 1 ? usd.toFixed(3) : usd.toFixed(2)}`;
}

/** @param {string} ts */
export function clock(ts) {
  return CLOCK.format(new Date(ts));
}

/** How long ago, in a word. @param {string} ts @param {number} [now] */
export function ago(ts, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(ts)) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return DAY.format(new Date(ts));
}

/** `1 block`, `2 blocks`. @param {number} n @param {string} one @param {string} [many] */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** The last part of a path. @param {string} path */
export function fileName(path) {
  return path.split("/").pop() ?? path;
}

/** JSON, or nothing if the text is none. @param {string | undefined | null} text @returns {any} */
export function parse(text) {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return null;
  }
}

/** The kind of a file, by its name. @param {string} path */
export function extension(path) {
  const name = fileName(path);
  const dot = name.lastIndexOf(".");
  return dot > 0 ? name.slice(dot + 1, dot + 5) : "file";
}

/** The first line with any text, cut to this many characters. @param {string} text @param {number} max */
export function firstLine(text, max) {
  const line = text.trimStart().split("\n", 1)[0];
  return line.length > max ? `${line.slice(0, max)}…` : line;
}
