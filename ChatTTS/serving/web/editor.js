/** The field for the text: its marks and its end are shown behind it, its length and its limit below. */

import { split } from "./tags.js";

const $ = (id) => document.getElementById(id);
const NEARLY = 0.9; // of the limit
const MOST_NAMED = 12; // tags below the text

export class Editor {
  #text = $("text");
  #shade = $("shade"); // the same text, invisible, with a tint behind tags and what is too much
  #limit = Infinity;
  #tags;

  /** @param {import("./tags.js").Tags} tags */
  constructor(tags) {
    this.#tags = tags;
    tags.addEventListener("change", () => this.#offer());
    this.#text.addEventListener("input", () => this.#changed());
    this.#text.addEventListener("scroll", () => this.#align());
    new ResizeObserver(() => this.#align()).observe(this.#text);
    $("tags").addEventListener("click", ({ target }) => {
      if (target.dataset.tag) this.#insert(target.dataset.tag);
    });
    for (const button of document.querySelectorAll("[data-example]")) {
      button.addEventListener("click", () => {
        this.text = this.#tags.known(button.dataset.example);
        this.focus();
      });
    }
    this.#changed();
  }

  /** The text without spaces around it. */
  get text() {
    return this.#text.value.trim();
  }

  set text(text) {
    this.#text.value = text;
    this.#changed();
  }

  /** Characters above the limit; 0 if the text fits. */
  get excess() {
    return Math.max(0, [...this.text].length - this.#limit);
  }

  /** @param {number} limit the longest text that the server takes, in code points. */
  set limit(limit) {
    if (limit === this.#limit) return;
    this.#limit = limit;
    this.#changed();
  }

  focus() {
    this.#text.focus();
  }

  #insert(tag) {
    const [from, to] = [this.#text.selectionStart, this.#text.selectionEnd];
    const before = this.#text.value.slice(0, from);
    const gap = before && !/\s$/.test(before) ? " " : "";
    this.#text.setRangeText(`${gap}${tag} `, from, to, "end");
    this.focus();
    this.#changed();
  }

  #changed() {
    const { value } = this.#text;
    const lead = value.length - value.trimStart().length;
    const whole = [...value];
    const fits = Number.isFinite(this.#limit) ? whole.slice(0, lead + this.#limit).join("") : value;
    const tinted = split(fits).map(({ text, isTag }) => (isTag ? tinge(text, this.#tags.isIdle(text) ? "tinge unknown" : "tinge") : text));
    const beyond = this.excess ? [tinge(value.slice(fits.length), "tinge over")] : [];
    // A text that ends with a line end has one more line, which the shade would not have.
    this.#shade.replaceChildren(...tinted, ...beyond, "\n");
    this.#align();
    this.#count();
    this.#explain(split(value).filter(({ isTag }) => isTag));
  }

  #count() {
    const { length } = [...this.text];
    const number = (count) => count.toLocaleString("en");
    const isKnown = Number.isFinite(this.#limit);
    const near = isKnown && length > NEARLY * this.#limit;
    $("count").dataset.state = this.excess ? "over" : near ? "near" : "fine";
    if (this.excess) $("count").textContent = `${number(this.excess)} characters too many`;
    else if (isKnown) $("count").textContent = `${number(length)} of ${number(this.#limit)} characters`;
    else $("count").textContent = length === 1 ? "1 character" : `${number(length)} characters`;
  }

  /** Name the tags of the text, each once. */
  #explain(pieces) {
    const tags = [...new Set(pieces.map(({ text }) => text))];
    const entry = (tag) => {
      const item = document.createElement("li");
      const code = document.createElement("code");
      code.textContent = tag;
      item.append(code, ` ${this.#tags.meaning(tag)}`);
      return item;
    };
    const shown = tags.map((tag) => tag + this.#tags.meaning(tag)).join();
    if ($("legend").dataset.tags === shown) return; // a screen reader need not hear it again
    $("legend").dataset.tags = shown;
    $("legend").replaceChildren(...tags.slice(0, MOST_NAMED).map(entry));
    $("legend").hidden = tags.length === 0;
  }

  /** Offer the pauses and sounds of the voice. */
  #offer() {
    const buttons = (kind) => this.#tags.insertable.filter((tag) => tag.kind === kind).map(insertButton);
    $("tags").replaceChildren(...buttons("pause"), $("silence"), ...buttons("sound"));
    for (const example of document.querySelectorAll("[data-needs]")) {
      example.hidden = this.#tags.isIdle(example.dataset.needs);
    }
    this.#changed();
  }

  #align() {
    this.#shade.style.width = `${this.#text.clientWidth}px`;
    this.#shade.scrollTop = this.#text.scrollTop;
  }
}

function insertButton({ tag, name }) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "tag";
  button.dataset.tag = button.title = tag;
  button.textContent = name[0].toUpperCase() + name.slice(1);
  button.setAttribute("aria-label", `Insert ${name}`);
  return button;
}

function tinge(text, className) {
  const mark = document.createElement("mark");
  mark.className = className;
  mark.textContent = text;
  return mark;
}
