/** Finds the sentences of a text. */

import { split } from "./tags.js";

/**
 * @param {string[]} characters code points, as the server counts.
 * @returns {{from: number, to: number}[]} all of the text, in order, without gaps.
 */
export function sentences(characters) {
  // A tag has no sentence of its own: it belongs to the one before it, as a space does.
  const plain = split(characters.join("")).map(({ text, isTag }) => (isTag ? " ".repeat([...text].length) : text));
  if (!Intl.Segmenter) return [{ from: 0, to: characters.length }];
  const found = [];
  let from = 0;
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(plain.join(""))) {
    const to = from + [...segment].length;
    found.push({ from, to });
    from = to;
  }
  return found;
}
