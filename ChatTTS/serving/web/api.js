/** The requests to the server. Addresses are relative, so that the page works behind a path prefix. */

import { recall, remember } from "./storage.js";

const KEY = "key";

/** A failed request, with a message for the user. */
export class ServerError extends Error {
  /**
   * @param {string} message
   * @param {number} status of HTTP; 0 where no answer came.
   * @param {{code?: string, param?: string, retryAfter?: number, help?: string}} more what the server says:
   *   the kind of error, the field that is wrong, seconds to wait before another try; or what helps.
   */
  constructor(message, status = 0, { code = "", param = "", retryAfter = 0, help = "" } = {}) {
    super(message);
    Object.assign(this, { status, code, param, retryAfter, help });
  }

  get isBusy() {
    return this.status === 429 || this.status === 503;
  }
}

export class Server {
  knowsWords = false; // whether speech can come with the times of its words
  longest = Infinity; // characters of a text
  wavMark = new Uint8Array(); // the chunk that says in a WAV file that its sound is synthetic

  get key() {
    return recall(KEY, "");
  }

  set key(value) {
    remember(KEY, value);
  }

  /** All voices: {voices: [{id, name, kind, uploaded, language, stands_for}], default, language_defaults}. */
  async voices() {
    return (await this.#ask("v1/audio/voices")).json();
  }

  /** The control tags that the voice knows: [{tag, name, kind}]; the kind is pause, sound or setting. */
  async tags() {
    const { tags } = await (await this.#ask("v1/audio/tags")).json();
    return tags;
  }

  /** The state of the queue: {running, waiting, limit}. */
  async status() {
    const status = await (await this.#ask("v1/status")).json();
    this.knowsWords = Boolean(status.word_times);
    this.longest = status.max_characters ?? Infinity;
    this.wavMark = Uint8Array.from(atob(status.wav_mark ?? ""), (byte) => byte.charCodeAt(0));
    return status;
  }

  /** Speech, as a response whose body is still being received. */
  speech(request, format, signal) {
    return this.#ask("v1/audio/speech", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ model: "chattts", ...request, response_format: format }),
      signal,
    });
  }

  /** @param {FormData} form name and consent; audio_sample and ref_text, or speaker (a blend). */
  async addVoice(form, signal) {
    await this.#ask("v1/audio/voices", { method: "POST", body: form, signal });
  }

  async deleteVoice(id) {
    await this.#ask(`v1/audio/voices/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  async #ask(path, options = {}) {
    const headers = new Headers(options.headers);
    if (this.key) headers.set("Authorization", `Bearer ${this.key}`);
    let response;
    try {
      response = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      const help = "Check that it is still running, and that this device is connected.";
      throw new ServerError("The server can't be reached.", 0, { help });
    }
    if (!response.ok) throw await asError(response);
    return response;
  }
}

async function asError(response) {
  const text = await response.text().catch(() => "");
  const said = {};
  try {
    Object.assign(said, JSON.parse(text).error);
  } catch {
    // The answer may come from a proxy, in a format of its own.
  }
  const status = `${response.status} ${response.statusText}`.trim();
  const spare = `The server answered ${status}.`;
  const message = typeof said.message === "string" && said.message ? said.message : spare;
  const retryAfter = seconds(response.headers.get("Retry-After"));
  return new ServerError(message, response.status, { code: said.code, param: said.param, retryAfter });
}

/** Retry-After is a number of seconds or a date. */
function seconds(header) {
  if (!header) return 0;
  const number = Number(header);
  const wait = Number.isNaN(number) ? (Date.parse(header) - Date.now()) / 1000 : number;
  return Math.max(0, Math.ceil(wait || 0));
}
