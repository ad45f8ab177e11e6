/** The speech of this tab. The tab stores all texts; sounds are kept in memory, and only the latest. */

import { DOUBLE_MS } from "./confirm.js";
import { recall, remember } from "./storage.js";
import { clock, isolated } from "./words.js";

const $ = (id) => document.getElementById(id);
const KEPT = "history";
const MOST_ENTRIES = 50;
const MOST_BYTES = 64 << 20; // of sound: about twenty minutes

/**
 * An entry: {id, fields, voiceName, seconds}; `fields` is the request, with the seed that was used.
 */
export class History {
  #hooks;
  #tags;
  #entries = recall(KEPT, []);
  #tracks = new Map(); // by id, least recently used first
  #deleted = -Infinity; // when an entry was

  /**
   * @param hooks {play(entry, track), again(entry), save(entry, track)}; a track may be undefined.
   * @param {import("./tags.js").Tags} tags
   */
  constructor(hooks, tags) {
    this.#hooks = hooks;
    this.#tags = tags;
    tags.addEventListener("change", () => this.#show());
    $("history-clear").addEventListener("click", ({ timeStamp }) => {
      if (this.#isSecond(timeStamp)) return;
      this.#entries = [];
      this.#tracks.clear();
      this.#changed();
      $("text").focus();
    });
    this.#show();
  }

  add(entry, track) {
    this.#entries = [entry, ...this.#entries].slice(0, MOST_ENTRIES);
    this.#keep(entry.id, track);
    this.#changed();
  }

  /** Replace the track of an entry whose speech was generated again. */
  renew(id, track) {
    if (this.#entries.some((entry) => entry.id === id)) this.#keep(id, track);
  }

  #keep(id, track) {
    this.#tracks.delete(id);
    this.#tracks.set(id, track);
    let bytes = [...this.#tracks.values()].reduce((sum, { size }) => sum + size, 0);
    for (const [oldest, { size }] of this.#tracks) {
      if (bytes <= MOST_BYTES || oldest === id) break;
      this.#tracks.delete(oldest);
      bytes -= size;
    }
  }

  #use(id) {
    const track = this.#tracks.get(id);
    if (track) this.#keep(id, track);
    return track;
  }

  /** Whether a click is the second one of a double click: after a deletion it meets another button. */
  #isSecond(timeStamp) {
    return timeStamp - this.#deleted < DOUBLE_MS;
  }

  #delete(id) {
    const at = this.#entries.findIndex((entry) => entry.id === id);
    this.#entries = this.#entries.filter((entry) => entry.id !== id);
    this.#tracks.delete(id);
    this.#changed();
    // Otherwise the focus would move to the top of the page.
    const buttons = $("entries").querySelectorAll(".entry-delete");
    (buttons[Math.min(at, buttons.length - 1)] ?? $("text")).focus();
  }

  #changed() {
    remember(KEPT, this.#entries);
    this.#show();
  }

  #show() {
    $("entries").replaceChildren(...this.#entries.map((entry) => this.#item(entry)));
    $("history-empty").hidden = this.#entries.length > 0;
    $("history-clear").hidden = this.#entries.length === 0;
  }

  #item(entry) {
    const item = $("entry").content.cloneNode(true);
    const part = (name) => item.querySelector(`.entry-${name}`);
    const { input } = entry.fields;
    part("text").replaceChildren(...this.#tags.withNames(input));
    part("meta").textContent = [isolated(entry.voiceName), clock(entry.seconds)].join(" · ");
    const about = isolated(input.length > 40 ? `${input.slice(0, 40)}…` : input);
    const act = (name, label, action) => {
      part(name).setAttribute("aria-label", `${label}: ${about}`);
      part(name).title = label;
      part(name).addEventListener("click", action);
    };
    act("play", "Play", () => this.#hooks.play(entry, this.#use(entry.id)));
    act("again", "Put the text and its settings back into the form", () => this.#hooks.again(entry));
    act("save", "Download as wav", () => this.#hooks.save(entry, this.#use(entry.id)));
    act("delete", "Delete", ({ timeStamp }) => {
      if (this.#isSecond(timeStamp)) return;
      this.#deleted = timeStamp;
      this.#delete(entry.id);
    });
    return item;
  }
}
