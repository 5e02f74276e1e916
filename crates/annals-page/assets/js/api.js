// @ts-check
/**
 * What the server is asked. Every failure becomes a sentence that can be shown.
 */

/** A failed request, as people read it. */
export class Problem extends Error {
  /** @param {string} message @param {string} code @param {number} status */
  constructor(message, code, status) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

const SENTENCES = new Map([
  [401, "You are not signed in. Open the address that `annals serve` printed."],
  [403, "This token may not do that."],
  [404, "There is nothing by this name."],
  [413, "That is too large to send."],
  [429, "Too many requests; try again in a moment."],
]);

/** @param {Response} response */
async function problem(response) {
  const said = await response.json().catch(() => ({}));
  const sentence = said.detail ?? said.title ?? SENTENCES.get(response.status) ?? `The server answered ${response.status}.`;
  const text = said.hint ? `${sentence} ${said.hint}` : sentence;
  return new Problem(text.charAt(0).toUpperCase() + text.slice(1), said.code ?? "", response.status);
}

/** @param {string} path @param {RequestInit} [init] */
async function send(path, init) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("The server cannot be reached. It is asked again by itself.", "unreachable", 0);
  }
  if (!response.ok) throw await problem(response);
  return response;
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, signal) {
  return (await send(path, { signal })).json();
}

/** A picture as an address of this page, with what its answer said. @param {string} path @returns {Promise<{ address: string, headers: Headers }>} */
export async function picture(path) {
  const response = await send(path);
  return { address: URL.createObjectURL(await response.blob()), headers: response.headers };
}

/** @param {string} path @param {any} [body] JSON, a form or bytes @param {string} [key] makes a repeated request harmless */
export async function post(path, body, key = crypto.randomUUID?.() ?? String(Math.random())) {
  /** @type {Record<string, string>} */
  const headers = { "Idempotency-Key": key };
  let payload = body;
  if (!(body instanceof FormData) && !(body instanceof Blob)) {
    headers["Content-Type"] = "application/json";
    payload = JSON.stringify(body ?? {});
  }
  const response = await send(path, { method: "POST", headers, body: payload });
  return response.status === 204 ? null : response.json().catch(() => null);
}

/** @param {string} path */
export async function remove(path) {
  await send(path, { method: "DELETE" });
}

/** @param {string} id @param {string} [rest] */
export function conversation(id, rest = "") {
  return `/v1/conversations/${encodeURIComponent(id)}${rest}`;
}

/** Where the bytes of a file are. @param {string} id @param {string} path @param {Record<string, string | number>} [query] */
export function artifact(id, path, query) {
  const parts = path.split("/").map(encodeURIComponent).join("/");
  const asked = query ? `?${new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)]))}` : "";
  return conversation(id, `/artifacts/${parts}${asked}`);
}

/** @param {unknown} error */
export function sentence(error) {
  return error instanceof Error ? error.message : String(error);
}
