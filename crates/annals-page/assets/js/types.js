// @ts-check
/**
 * What the server sends, as types for the checker.
 *
 * @typedef {object} Usage
 * @property {number} input_tokens
 * @property {number} cache_read_tokens
 * @property {number} cache_write_tokens
 * @property {number} output_tokens
 *
 * @typedef {object} Block
 * @property {number} seq
 * @property {string} type
 * @property {string} author
 * @property {string} turn_id
 * @property {string} ts
 * @property {string} mime
 * @property {string} [path]
 * @property {string} [call_id]
 * @property {string} [text]
 * @property {{ digest: string, size_bytes: number }} [blob]
 * @property {Record<string, any>} [meta]
 * @property {number} tokens
 *
 * @typedef {object} Summary
 * @property {string} id
 * @property {string | null} [title]
 * @property {string} created
 * @property {string} updated
 * @property {number} blocks
 * @property {{ parent: string, at?: number, operator: string }[]} [lineage]
 *
 * @typedef {object} Delta
 * @property {string} turn_id
 * @property {number} step
 * @property {"canvas" | "timeline_text" | "thinking" | "answer"} channel
 * @property {string} text
 * @property {string} [path]
 * @property {number} [from]
 *
 * @typedef {object} Progress how far the tool of a call has come
 * @property {string} call_id
 * @property {number} progress
 * @property {number} [total]
 * @property {string} [message]
 *
 * @typedef {any[] | string | Record<string, any>} Tree
 *
 * @typedef {object} Drawn prose that is arriving, as trees
 * @property {string} turn_id
 * @property {number} step
 * @property {string} channel
 * @property {string} [path]
 * @property {number} keep how many of the trees before stay
 * @property {Tree[]} trees those that follow them
 */
export {};
