// @ts-check
/**
 * Which addresses may be put on the page. Texts that strangers wrote name addresses; one that could run something when
 * it is followed is never set.
 */

/** Whether following this address stays harmless. @param {string} address */
export function isSafeAddress(address) {
  // Browsers leave these characters out when they read the scheme.
  const plain = address.replace(/[\u0000-\u0020\u007f-\u00a0\u00ad\u200b-\u200f\u2028-\u202f\ufeff]/g, "");
  if (/^(https?|mailto|blob):/i.test(plain)) return true;
  return !/^[^/?#]*:/.test(plain) && !plain.startsWith("//") && !plain.includes("\\");
}
