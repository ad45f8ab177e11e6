/**
 * The text that is spoken, as it was written: its sentence and its word that sound are marked, and a click
 * plays from a word.
 */

import { sentences } from "./sentences.js";
import { split } from "./tags.js";

// What the guard's kinds of faults mean to a listener.
const MEANINGS = {
  skipped: "may be missing",
  cut: "may be missing",
  repeated: "may be said twice",
  tail: "more sound follows the last word",
  wordless: "sound without words",
};

const MOST_TOLD = 5; // faults, of which all are underlined, and parts left out

export class Transcript {
  #root;
  #tags;
  #faults; // the line that names them
  #characters = []; // of the text; the server counts code points
  #leaves = []; // {node, from, to, sentence}: text without words yet, in order
  #at = 0; // the first leaf that may get the next word
  #words = []; // {start, end, from, to, element, sentence}; from and to are characters
  #shown = 0; // words of the track that have elements
  #word = null;
  #sentence = null;

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} faults
   * @param {import("./tags.js").Tags} tags
   * @param {(seconds: number) => void} play called with the start of a word that was clicked.
   */
  constructor(root, faults, tags, play) {
    this.#root = root;
    this.#tags = tags;
    this.#faults = faults;
    root.addEventListener("click", ({ target }) => {
      const word = this.#words.find(({ element }) => element === target);
      if (word) play(word.start);
    });
  }

  /** Show another text, once words of it are known. */
  begin(text) {
    this.#characters = [...text];
    this.#words = [];
    this.#leaves = [];
    this.#shown = this.#at = 0;
    this.#word = this.#sentence = null;
    this.#root.replaceChildren(...sentences(this.#characters).map((range) => this.#asSentence(range)));
    this.#root.scrollTop = 0;
    this.#root.hidden = this.#faults.hidden = true;
  }

  /** @param {import("./track.js").Track} track whose words, faults and parts left out are those known so far. */
  grow({ words, faults, leftOut }) {
    for (; this.#shown < words.length; this.#shown++) this.#add(words[this.#shown]);
    if (this.#shown && this.#root.hidden) {
      this.#root.hidden = false;
      this.#root.scrollIntoView({ block: "nearest" }); // a phone shows little at once
    }
    if (faults.length || leftOut.length) this.#tell(faults, leftOut);
  }

  /** Mark the word and the sentence that sound at a time; a negative time marks nothing. */
  mark(seconds) {
    const word = this.#words.find(({ start, end }) => start <= seconds && seconds < end) ?? null;
    // A sentence stays marked in its pauses, and until the next one begins.
    const begun = word ?? this.#words.findLast(({ start, end }) => start <= seconds && end > start);
    this.#sentence = move("read", this.#sentence, begun?.sentence ?? null);
    const element = word?.element ?? null;
    if (element === this.#word) return;
    this.#word = move("now", this.#word, element);
    if (element) this.#follow(element);
  }

  #asSentence({ from, to }) {
    const sentence = document.createElement("span");
    sentence.className = "sentence";
    for (const { text, isTag } of split(this.#characters.slice(from, to).join(""))) {
      const end = from + [...text].length;
      const node = isTag ? this.#tags.chip(text) : document.createTextNode(text);
      if (!isTag) this.#leaves.push({ node, from, to: end, sentence });
      sentence.append(node);
      from = end;
    }
    return sentence;
  }

  #add({ start, end, start_character: from, end_character: to }) {
    while (this.#at < this.#leaves.length && this.#leaves[this.#at].to <= from) this.#at += 1;
    const leaf = this.#leaves[this.#at];
    if (!leaf) return;
    const [first, last] = [Math.max(from, leaf.from), Math.min(to, leaf.to)];
    const element = document.createElement("span");
    element.className = "word";
    element.textContent = this.#characters.slice(first, last).join("");
    leaf.node.before(this.#characters.slice(leaf.from, first).join(""), element);
    leaf.node.data = this.#characters.slice(last, leaf.to).join("");
    leaf.from = last;
    this.#words.push({ start, end, from, to, element, sentence: leaf.sentence });
  }

  /** Scroll a long text, so that the word is seen. */
  #follow(element) {
    const [box, seen] = [element.getBoundingClientRect(), this.#root.getBoundingClientRect()];
    if (box.top >= seen.top && box.bottom <= seen.bottom) return;
    this.#root.scrollTop += box.top - seen.top - seen.height / 3;
  }

  /** Underline the words of faults, and name them and what was left out below the text. */
  #tell(faults, leftOut) {
    const told = faults.map(({ kind, text, start_character: from, end_character: to }) => {
      for (const word of this.#words) {
        if (word.from < to && word.to > from) word.element.classList.add("faulty");
      }
      return text ? `“${text}” ${MEANINGS[kind]}` : MEANINGS[kind];
    });
    const lines = [];
    if (leftOut.length) lines.push(`Left out, since this voice cannot speak it: ${shortened(leftOut).join(", ")}.`);
    if (told.length) lines.push(`${shortened(told).join("; ")}. Speak it again: it comes out differently.`);
    const line = lines.join(" ");
    if (this.#faults.textContent !== line) this.#faults.textContent = line;
    this.#faults.hidden = false;
  }
}

function shortened(parts) {
  const more = parts.length - MOST_TOLD;
  return more > 0 ? [...parts.slice(0, MOST_TOLD), `and ${more} more`] : parts;
}

/** Move a class from one element to another. */
function move(name, from, to) {
  if (from === to) return to;
  from?.classList.remove(name);
  to?.classList.add(name);
  return to;
}
