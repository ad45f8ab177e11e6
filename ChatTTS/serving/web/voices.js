/** The list of voices; uploads and deletes the user's voices. */

import { ServerError } from "./api.js";
import { recall, remember } from "./storage.js";

const $ = (id) => document.getElementById(id);
const CHOSEN = "voice";

export class Voices {
  #server;
  #notices;
  #select = $("voice");
  #uploaded = new Set();

  constructor(server, notices) {
    this.#server = server;
    this.#notices = notices;
    this.#select.addEventListener("change", () => this.#chose());
    $("voice-add").addEventListener("click", () => this.#open());
    $("voice-cancel").addEventListener("click", () => $("voice-dialog").close());
    $("voice-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#upload();
    });
    $("voice-delete").addEventListener("click", () => this.#delete());
  }

  /** The id, or an empty string for the server's default voice. */
  get chosen() {
    return this.#select.value;
  }

  choose(id) {
    this.#select.value = id;
    if (this.#select.selectedIndex < 0) this.#select.selectedIndex = 0;
    this.#chose();
  }

  /** The name of a voice. */
  name(id) {
    const option = [...this.#select.options].find(({ value }) => value === id);
    return option?.textContent ?? id;
  }

  /** Load the list of voices from the server. */
  async load() {
    let voices;
    try {
      voices = await this.#server.voices();
    } catch (error) {
      // Entering a key loads everything again.
      this.#notices.show(error, error.status === 401 ? null : () => this.load());
      return;
    }
    const wanted = recall(CHOSEN, "");
    this.#uploaded = new Set(voices.filter((voice) => voice.uploaded).map(({ id }) => id));
    hideForeignExamples(voices);
    const own = this.#select.options[0];
    const groups = [
      ["Voices", voices.filter((voice) => !voice.uploaded)],
      ["Uploaded", voices.filter((voice) => voice.uploaded)],
    ];
    this.#select.replaceChildren(own, ...groups.filter(([, some]) => some.length).map(asGroup));
    this.choose(wanted);
  }

  #chose() {
    remember(CHOSEN, this.chosen);
    $("voice-delete").hidden = !this.#uploaded.has(this.chosen);
  }

  #open() {
    $("voice-error").textContent = "";
    $("voice-dialog").showModal();
  }

  async #upload() {
    const form = new FormData($("voice-form"));
    const send = $("voice-send");
    send.disabled = true;
    $("voice-error").textContent = "";
    try {
      await this.#server.addVoice(form);
    } catch (error) {
      $("voice-error").textContent = error.message;
      return;
    } finally {
      send.disabled = false;
    }
    $("voice-form").reset();
    $("voice-dialog").close();
    remember(CHOSEN, form.get("name"));
    await this.load();
  }

  async #delete() {
    const id = this.chosen;
    if (!(await confirmed(`Delete the voice ${this.name(id)}? Its recording cannot be restored.`))) return;
    try {
      await this.#server.deleteVoice(id);
    } catch (error) {
      this.#notices.show(error instanceof ServerError ? error : new ServerError(String(error)));
      return;
    }
    remember(CHOSEN, "");
    await this.load();
    this.#select.focus();
  }
}

/** Hide examples in languages that no voice speaks; a voice without a language speaks any. */
function hideForeignExamples(voices) {
  const spoken = new Set(voices.map(({ language }) => language ?? ""));
  for (const example of document.querySelectorAll("[data-example][lang]")) {
    example.hidden = spoken.size > 0 && !spoken.has("") && !spoken.has(example.lang);
  }
}

function asGroup([label, voices]) {
  const group = document.createElement("optgroup");
  group.label = label;
  for (const { id, name } of voices) group.append(new Option(name ?? id, id));
  return group;
}

function confirmed(question) {
  const dialog = $("confirm-dialog");
  $("confirm-text").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
