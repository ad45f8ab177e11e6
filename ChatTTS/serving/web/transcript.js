/** The text with the words that were spoken: the one that sounds is marked, and a click plays from a word. */

// What the guard's kinds of faults mean to a listener.
const MEANINGS = {
  skipped: "may be missing",
  cut: "may be missing",
  repeated: "may be said twice",
  tail: "more sound follows the last word",
  wordless: "sound without words",
};

export class Transcript {
  #root;
  #faults; // the line that names them
  #characters = []; // of the text; the server counts code points
  #words = []; // {start, end, from, to, element}; from and to are characters
  #shown = 0; // words of the track that have elements
  #done = 0; // characters before the rest
  #rest = null; // the text node behind the last word
  #now = null;

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} faults
   * @param {(seconds: number) => void} play called with the start of a word that was clicked.
   */
  constructor(root, faults, play) {
    this.#root = root;
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
    this.#shown = this.#done = 0;
    this.#now = null;
    this.#rest = document.createTextNode(text);
    this.#root.replaceChildren(this.#rest);
    this.#root.hidden = this.#faults.hidden = true;
  }

  /**
   * @param words all that are known, in order: {start, end, start_character, end_character}.
   * @param faults all that are known: {kind, text, start_character, end_character}.
   */
  grow(words, faults) {
    for (; this.#shown < words.length; this.#shown++) this.#add(words[this.#shown]);
    if (this.#shown) this.#root.hidden = false;
    if (faults.length) this.#tell(faults);
  }

  /** Mark the word that sounds at a time. */
  mark(seconds) {
    const now = this.#words.find(({ start, end }) => start <= seconds && seconds < end)?.element ?? null;
    if (now === this.#now) return;
    this.#now?.classList.remove("now");
    now?.classList.add("now");
    this.#now = now;
  }

  #add({ start, end, start_character: from, end_character: to }) {
    const element = document.createElement("span");
    element.className = "word";
    element.textContent = this.#characters.slice(from, to).join("");
    this.#rest.before(this.#characters.slice(this.#done, from).join(""), element);
    this.#rest.data = this.#characters.slice(to).join("");
    this.#done = to;
    this.#words.push({ start, end, from, to, element });
  }

  /** Underline the words of faults, and name them below the text. */
  #tell(faults) {
    const told = faults.map(({ kind, text, start_character: from, end_character: to }) => {
      for (const word of this.#words) {
        if (word.from < to && word.to > from) word.element.classList.add("faulty");
      }
      return text ? `“${text}” ${MEANINGS[kind]}` : MEANINGS[kind];
    });
    const line = `${told.join("; ")}. Another seed may help.`;
    if (this.#faults.textContent !== line) this.#faults.textContent = line;
    this.#faults.hidden = false;
  }
}
