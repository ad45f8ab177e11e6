/** The requests to the server. Addresses are relative, so that the page works behind a path prefix. */

import { recall, remember } from "./storage.js";

const KEY = "key";

/** A failed request, with a message for the user. */
export class ServerError extends Error {
  /**
   * @param {string} message
   * @param {number} status of HTTP; 0 where no answer came.
   * @param {number} retryAfter seconds to wait before another try; 0 where nothing is said.
   */
  constructor(message, status = 0, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  get isBusy() {
    return this.status === 429 || this.status === 503;
  }
}

export class Server {
  knowsWords = false; // whether speech can come with the times of its words

  get key() {
    return recall(KEY, "");
  }

  set key(value) {
    remember(KEY, value);
  }

  /** Voices: [{id, name, uploaded?}]. */
  async voices() {
    const { voices } = await (await this.#ask("v1/audio/voices")).json();
    return voices;
  }

  /** The state of the queue: {running, waiting, limit}. */
  async status() {
    const status = await (await this.#ask("v1/status")).json();
    this.knowsWords = Boolean(status.word_times);
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

  /** @param {FormData} form audio_sample, name, consent, ref_text. */
  async addVoice(form) {
    await this.#ask("v1/audio/voices", { method: "POST", body: form });
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
      throw new ServerError("The server cannot be reached. Is it still running?");
    }
    if (!response.ok) throw await asError(response);
    return response;
  }
}

async function asError(response) {
  const text = await response.text().catch(() => "");
  let message = "";
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // The answer may come from a proxy, in a format of its own.
  }
  if (typeof message !== "string" || !message) {
    message = `The server answered ${response.status} ${response.statusText}`.trim() + ".";
  }
  return new ServerError(message, response.status, seconds(response.headers.get("Retry-After")));
}

/** Retry-After is a number of seconds or a date. */
function seconds(header) {
  if (!header) return 0;
  const number = Number(header);
  const wait = Number.isNaN(number) ? (Date.parse(header) - Date.now()) / 1000 : number;
  return Math.max(0, Math.ceil(wait || 0));
}
