// @ts-check
/**
 * What tokens cost, by the prices the server gives for the model of each turn.
 */
import { signal } from "./view.js";

/** @typedef {{ input: number, cache_read: number, cache_write: number, output: number }} Rates nano-dollars a token */
/** @typedef {Rates & { long?: Rates & { over_tokens: number } }} Price `long` holds for prompts of more tokens than that */

/** By turn. @type {import("./view.js").Signal<Map<string, Price>>} */
export const prices = signal(/** @type {Map<string, Price>} */ (new Map()));

/** Nano-dollars, or null where no price is known. @param {any} usage @param {{ turn_id: string }} block @returns {number | null} */
export function costOf(usage, block) {
  const price = prices.value.get(block.turn_id) ?? prices.value.get("*");
  return price && usage ? cost(usage, price) : null;
}

/** @param {import("./types.js").Usage} usage @param {Price} price */
export function cost(usage, price) {
  const rates = price.long && usage.input_tokens > price.long.over_tokens ? price.long : price;
  const uncached = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens;
  return (
    uncached * rates.input +
    usage.cache_read_tokens * rates.cache_read +
    usage.cache_write_tokens * rates.cache_write +
    usage.output_tokens * rates.output
  );
}
