/** A card for each voice: it is chosen by a click, and heard by its button. */

import { isolated, languageName } from "./words.js";

const $ = (id) => document.getElementById(id);
const MOST_UNFILTERED = 8;
const ORIGINS = { sample: "From a recording", adapter: "Trained voice" };

export class Cards {
  #hooks;
  #items = []; // {voice, root, radio, hear}
  #count = 0; // of cards that were ever made: their ids

  /** @param hooks {hear(id, language), remove(voice)} */
  constructor(hooks) {
    this.#hooks = hooks;
    $("voice-filter").addEventListener("input", () => this.#filter());
  }

  /** The id of the chosen voice; "" if none is. */
  get chosen() {
    return this.#items.find(({ radio }) => radio.checked)?.voice.id ?? "";
  }

  choose(id) {
    const item = this.#items.find(({ voice }) => voice.id === id);
    if (item) item.radio.checked = true;
  }

  /** @param voices {id, name, kind, uploaded, language, isUsual, usualFor, others}; others are names, too. */
  show(voices) {
    this.#items = voices.map((voice) => this.#item(voice));
    $("voice-list").replaceChildren(...this.#items.map(({ root }) => root));
    $("voice-filter").hidden = voices.length <= MOST_UNFILTERED;
    $("voice-filter").value = "";
    $("voice-none").hidden = true;
  }

  /** Mark the card that is chosen, and bring it into view. */
  showChosen() {
    for (const { root, radio } of this.#items) {
      root.classList.toggle("chosen", radio.checked);
      if (radio.checked) scrollTo(root);
    }
  }

  /** @param {import("./preview.js").Previews} previews */
  showPreview(previews) {
    for (const { voice, hear } of this.#items) showHearing(hear, previews.voice === voice.id ? previews.state : "idle", voice.name);
  }

  focus() {
    (this.#items.find(({ radio }) => radio.checked) ?? this.#items[0])?.radio.focus();
  }

  #item(voice) {
    const root = $("voice-card").content.cloneNode(true).querySelector(".voice");
    const part = (name) => root.querySelector(`.voice-${name}`);
    const radio = part("radio");
    radio.value = voice.id;
    this.#count += 1;
    radio.id = `voice-${this.#count}`;
    part("label").htmlFor = radio.id;
    part("name").textContent = voice.name;
    part("name").title = voice.name;
    part("note").textContent = note(voice);
    part("also").hidden = !voice.others.length;
    if (voice.others.length) {
      part("count").textContent = voice.others.length === 1 ? "1 other name" : `${voice.others.length} other names`;
      part("others").textContent = voice.others.map(isolated).join(", ");
    }
    const hear = part("hear");
    hear.addEventListener("click", () => this.#hooks.hear(voice.id, voice.language));
    const remove = part("delete");
    remove.hidden = !voice.uploaded;
    remove.setAttribute("aria-label", `Delete ${isolated(voice.name)}`);
    remove.addEventListener("click", () => this.#hooks.remove(voice));
    return { voice, root, radio, hear };
  }

  #filter() {
    const wanted = $("voice-filter").value.trim().toLocaleLowerCase();
    let shown = 0;
    for (const { voice, root } of this.#items) {
      root.hidden = ![voice.name, ...voice.others].some((name) => name.toLocaleLowerCase().includes(wanted));
      shown += root.hidden ? 0 : 1;
    }
    $("voice-none").hidden = shown > 0;
  }
}

/** Show on a button whether its voice is being heard. */
export function showHearing(button, state, name) {
  const isOn = state !== "idle";
  button.dataset.state = state;
  button.setAttribute("aria-label", isOn ? `Stop ${isolated(name)}` : `Hear ${isolated(name)}`);
  button.querySelector("use").setAttribute("href", isOn ? "#icon-stop" : "#icon-play");
}

function note({ kind, uploaded, isUsual, usualFor }) {
  const origin = ORIGINS[kind] ?? (uploaded ? "Saved voice" : "Built in");
  if (isUsual) return `${origin} · usual voice`;
  return usualFor.length ? `${origin} · usual voice for ${usualFor.map(languageName).join(", ")}` : origin;
}

/** Scroll the list alone, and not the page. */
function scrollTo(card) {
  const list = card.parentElement;
  const [box, seen] = [card.getBoundingClientRect(), list.getBoundingClientRect()];
  if (box.top < seen.top || box.bottom > seen.bottom) list.scrollTop += box.top - seen.top;
}
