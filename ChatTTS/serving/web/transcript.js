/** The text with the words that were spoken: the one that sounds is marked, and a click plays from a word. */

export class Transcript {
  #root;
  #characters = []; // of the text; the server counts code points
  #words = []; // {start, end, element}
  #shown = 0; // words of the track that have elements
  #done = 0; // characters before the rest
  #rest = null; // the text node behind the last word
  #now = null;

  /**
   * @param {HTMLElement} root
   * @param {(seconds: number) => void} play called with the start of a word that was clicked.
   */
  constructor(root, play) {
    this.#root = root;
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
    this.#root.hidden = true;
  }

  /** @param words all that are known, in order: {start, end, start_character, end_character}. */
  grow(words) {
    for (; this.#shown < words.length; this.#shown++) this.#add(words[this.#shown]);
    if (this.#shown) this.#root.hidden = false;
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
    this.#words.push({ start, end, element });
  }
}
