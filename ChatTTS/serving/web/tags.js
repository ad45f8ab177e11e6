/** Control tags such as [laugh], by the names that the server gives them. */

// As the server reads them: word characters of any script in brackets, or silence of a given length.
const TAG = /\[(?:[\p{L}\p{N}_]+|pause:[^[\]]*)\]/gu;
const PAUSE = /^\[pause:\s*(\d{1,6}(?:\.\d{1,6})?)\s*(m?s)\s*\]$/;
const LONGEST_PAUSE = 600; // seconds

/** The tags that the server's voice knows. Event: `change`, once the server told them. */
export class Tags extends EventTarget {
  #known = null; // {tag, name, kind} by tag; null until the server told them

  /** @param {{tag: string, name: string, kind: "pause" | "sound" | "setting"}[]} tags */
  learn(tags) {
    this.#known = new Map(tags.map((known) => [known.tag, known]));
    this.dispatchEvent(new Event("change"));
  }

  /** Those that stand between words, in the server's order, of several with one name the first. */
  get insertable() {
    const between = [...this.#known.values()].filter(({ kind }) => kind !== "setting");
    return between.filter(({ name }, i) => between.findIndex((other) => other.name === name) === i);
  }

  /** A text without the tags that have no effect. */
  known(text) {
    const pieces = split(text).filter((piece) => !piece.isTag || !this.isIdle(piece.text));
    return pieces.map((piece) => piece.text).join("").replace(/ {2,}/g, " ");
  }

  /** Whether a tag has no effect: false as long as that is not known. */
  isIdle(tag) {
    return isPause(tag) ? !lengthOf(tag) : this.#known !== null && !this.#known.has(tag);
  }

  /** The name of a tag; the tag itself if it has none. */
  name(tag) {
    return (isPause(tag) ? lengthOf(tag) : this.#known?.get(tag)?.name) || tag;
  }

  /** What a tag does, in words. */
  meaning(tag) {
    if (!this.isIdle(tag)) return this.name(tag);
    return isPause(tag) ? "is not a pause: write [pause:1.5s] or [pause:300ms]" : "means nothing to a voice, and is left out";
  }

  /** A small label with the name of a tag. */
  chip(tag) {
    const chip = document.createElement("span");
    chip.className = this.isIdle(tag) ? "tag-chip unknown" : "tag-chip";
    chip.textContent = this.name(tag);
    chip.title = tag;
    return chip;
  }

  /** Nodes that show a text with the names of its tags. */
  withNames(text) {
    return split(text).map((piece) => (piece.isTag ? this.chip(piece.text) : document.createTextNode(piece.text)));
  }
}

/**
 * Split a text into plain pieces and tags, in order.
 * @param {string} text
 * @returns {{text: string, isTag: boolean}[]}
 */
export function split(text) {
  const pieces = [];
  let done = 0;
  for (const { 0: tag, index } of text.matchAll(TAG)) {
    if (index > done) pieces.push({ text: text.slice(done, index), isTag: false });
    pieces.push({ text: tag, isTag: true });
    done = index + tag.length;
  }
  if (done < text.length) pieces.push({ text: text.slice(done), isTag: false });
  return pieces;
}

function isPause(tag) {
  return tag.startsWith("[pause:");
}

/** The length of a pause in words; "" if it is none. */
function lengthOf(tag) {
  const [, number, unit] = PAUSE.exec(tag) ?? [];
  if (!unit || number / (unit === "ms" ? 1000 : 1) > LONGEST_PAUSE) return "";
  return `silence, ${Number(number).toLocaleString("en")} ${unit}`;
}
