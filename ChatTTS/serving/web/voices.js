/** The voices to choose from: cards, a mix of them, and the user's own. */

import { Cards } from "./cards.js";
import { confirmed } from "./confirm.js";
import { explain } from "./errors.js";
import { Mix } from "./mix.js";
import { NewVoice } from "./newvoice.js";
import { recall, remember } from "./storage.js";
import { isolated } from "./words.js";

const $ = (id) => document.getElementById(id);
const CHOSEN = "voice";

export class Voices {
  #server;
  #notices;
  #previews;
  #cards;
  #mix;
  #loaded;
  #voices = []; // with names of their own
  #known = new Map(); // every name, with the voice that it means
  #usual = ""; // the server's own voice
  #byLanguage = {}; // the voices that speak in its place, by the language of the text
  #isPicked = false; // whether the user chose the voice, and not the server

  /** @param {() => void} loaded called when the server told its voices. */
  constructor(server, notices, previews, loaded) {
    this.#server = server;
    this.#notices = notices;
    this.#previews = previews;
    this.#loaded = loaded;
    const hear = (voice, language) => previews.toggle(voice, language);
    this.#cards = new Cards({ hear, remove: (voice) => this.#remove(voice) });
    this.#mix = new Mix(server, { hear, changed: () => this.#chose(), saved: (id) => this.#added(id) });
    new NewVoice(server, (id) => this.#added(id), () => previews.stop());
    previews.addEventListener("change", () => this.#showPreview());
    $("voices").addEventListener("change", ({ target }) => {
      if (target.name === "voice") this.#chose();
    });
    // The chosen card tells of no change where it is clicked.
    $("voices").addEventListener("click", ({ target }) => {
      if (target.name === "voice") this.#chose();
    });
    $("voices-retry").addEventListener("click", () => this.load());
  }

  /** The id of a voice, a mix such as `anna:70,bert:30`, or "" for the server's own voice. */
  get chosen() {
    return this.#mix.isChosen ? this.#mix.blend : this.#cards.chosen;
  }

  /** What a request asks for: "" where the language of its text is to choose. */
  get asked() {
    return this.#isPicked || !Object.keys(this.#byLanguage).length ? this.chosen : "";
  }

  /** Choose a voice by any of its names, "" for the server's own; of an unknown one nothing is changed. */
  choose(voice) {
    if (!voice) this.#leaveToServer();
    else if (this.#mark(voice)) this.#chose();
  }

  /** The name of a voice for the reader. */
  name(voice) {
    const found = this.#voices.find(({ id }) => id === this.#known.get(voice));
    return found?.name ?? (this.#mix.described(voice) || voice || "The server's own voice");
  }

  /** Load the list of voices from the server. */
  async load() {
    let list;
    try {
      list = await this.#server.voices();
    } catch (error) {
      this.#showFailure(error);
      return;
    }
    $("voices-failed").hidden = true;
    this.#loaded();
    const hadFocus = $("voice-list").contains(document.activeElement);
    this.#take(list);
    const wanted = recall(CHOSEN, null);
    this.#leaveToServer();
    if (wanted !== null) this.choose(wanted);
    if (!this.chosen && this.#voices.length) this.choose(this.#voices[0].id);
    this.#showPreview();
    if (hadFocus) this.#cards.focus();
  }

  #take({ voices, default: usual, language_defaults: byLanguage }) {
    const listed = new Set(voices.map(({ id }) => id));
    const isAlias = ({ stands_for: meant }) => meant != null && listed.has(meant);
    const aliases = voices.filter(isAlias);
    const known = new Map(voices.map((voice) => [voice.id, isAlias(voice) ? voice.stands_for : voice.id]));
    this.#known = known;
    this.#usual = usual ?? "";
    this.#byLanguage = byLanguage ?? {};
    this.#voices = voices
      .filter((voice) => !isAlias(voice))
      .map((voice) => ({
        ...voice,
        name: voice.name ?? voice.id,
        isUsual: voice.id === (known.get(usual) ?? usual),
        usualFor: Object.keys(this.#byLanguage).filter((code) => this.#byLanguage[code] === voice.id),
        others: aliases.filter(({ stands_for: meant }) => meant === voice.id).map(({ id }) => id),
      }));
    hideForeignExamples(voices);
    this.#cards.show(this.#voices);
    this.#mix.offer(this.#voices);
  }

  /** Mark a voice by any of its names as chosen; return whether there is one. */
  #mark(voice) {
    const own = this.#known.get(voice);
    if (own !== undefined) this.#cards.choose(own);
    else if (this.#mix.takes(voice)) this.#mix.choose(voice);
    else return false;
    return true;
  }

  #chose() {
    this.#isPicked = true;
    remember(CHOSEN, this.chosen);
    this.#showChosen();
  }

  #leaveToServer() {
    this.#isPicked = false;
    remember(CHOSEN, null);
    this.#mark(this.#usual);
    this.#showChosen();
  }

  #showChosen() {
    this.#cards.showChosen();
    this.#mix.showChosen();
  }

  #showPreview() {
    this.#cards.showPreview(this.#previews);
    this.#mix.showPreview(this.#previews);
  }

  /** Without a key no voice is shown, and the form for the key may have been closed. */
  #showFailure(error) {
    const { text, help } = explain(error);
    $("voices-failed").hidden = false;
    $("voices-failed-text").textContent = error.status === 401 ? "Your voices are shown once you gave the key." : `${text} ${help}`;
    $("voices-retry").textContent = error.status === 401 ? "Enter the key" : "Try again";
    if (error.status === 401) this.#notices.show(error);
  }

  async #added(id) {
    this.#previews.forget(id);
    remember(CHOSEN, id);
    await this.load();
    this.#cards.focus();
  }

  async #remove({ id, name }) {
    if (!(await confirmed(`Delete the voice ${isolated(name)}? It cannot be restored.`))) return;
    try {
      await this.#server.deleteVoice(id);
    } catch (error) {
      this.#notices.show(error);
      return;
    }
    this.#previews.forget(id);
    if (this.chosen === id) remember(CHOSEN, null);
    await this.load();
    this.#cards.focus();
  }
}

/** Hide examples in languages that no voice speaks; a voice without a language speaks any. */
function hideForeignExamples(voices) {
  const spoken = new Set(voices.map(({ language }) => language ?? ""));
  for (const example of document.querySelectorAll("[data-example][lang]")) {
    example.hidden = spoken.size > 0 && !spoken.has("") && !spoken.has(example.lang);
  }
}
