/** One request for speech, from the click to its last sample. */

import { ServerError } from "./api.js";
import { bytesOf, events } from "./events.js";
import { Track } from "./track.js";

const USUAL_RATE = 24000;

export class Speaking {
  #abort = new AbortController();

  /** @param fields of the request: input, voice, speed, seed and so on. */
  constructor(fields) {
    this.fields = fields;
    this.track = null; // set when the server answers
    this.finishReason = ""; // "stop" or "length", set at the end of the speech
    this.began = performance.now();
    this.tookMs = 0; // until the latest samples
  }

  get isAborted() {
    return this.#abort.signal.aborted;
  }

  /** The real-time factor: seconds of computing per second of speech; NaN before any sample. */
  get factor() {
    return this.track?.length ? this.tookMs / 1000 / this.track.seconds : NaN;
  }

  /** The server drops a request whose connection is closed. */
  abort() {
    this.#abort.abort();
  }

  /**
   * @param {import("./api.js").Server} server
   * @param {(speaking: Speaking) => void} began the track is there, empty.
   * @param {(speaking: Speaking) => void} grew it has more samples, or is complete.
   * @throws {ServerError} also when the connection breaks; what came until then stays.
   */
  async run(server, began, grew) {
    try {
      // Events, because a plain stream does not say how the speech ended.
      const asked = { ...this.fields, stream_format: "sse" };
      // The guard costs the server little, and changes no sample.
      if (server.knowsWords) Object.assign(asked, { timestamp_granularities: ["word"], guard: "report" });
      const response = await server.speech(asked, "pcm", this.#abort.signal);
      if (response.headers.has("x-silence")) {
        response.body.cancel();
        throw wordless();
      }
      this.#take(response.headers);
      began(this);
      for await (const event of events(response.body)) this.#follow(event, grew);
      if (!this.finishReason) throw broken();
      if (!this.track.length) throw silent();
    } catch (error) {
      if (this.isAborted) return;
      if (error instanceof ServerError) throw error;
      throw broken();
    } finally {
      if (this.track) {
        this.track.complete();
        grew(this);
      }
    }
  }

  #follow(event, grew) {
    if (event.type === "error") throw new ServerError(event.error.message, 500, event.error);
    if (event.type === "speech.audio.done") {
      this.finishReason = event.finish_reason;
      this.track.cues = event.cues ?? [];
      this.track.leftOut = event.left_out ?? this.track.leftOut;
    }
    if (event.type !== "speech.audio.delta") return;
    this.track.append(bytesOf(event.audio));
    this.track.words.push(...(event.words ?? []));
    this.track.faults.push(...(event.faults ?? []));
    this.tookMs = performance.now() - this.began;
    grew(this);
  }

  #take(headers) {
    this.track = new Track(Number(headers.get("x-sample-rate")) || USUAL_RATE);
    this.track.leftOut = partsOf(headers.get("x-left-out"));
    this.track.voice = decodeURIComponent(headers.get("x-voice") ?? "");
    const seed = Number(headers.get("x-seed") ?? NaN);
    if (Number.isSafeInteger(seed)) this.fields = { ...this.fields, seed };
  }
}

/** The letters and words of a header, percent-encoded with commas between them. */
function partsOf(header) {
  return header ? header.split(",").map(decodeURIComponent) : [];
}

function broken() {
  const help = "What you have heard is kept. Speak it again to hear all of it.";
  return new ServerError("The connection broke before the end.", 0, { help });
}

/** The server answers with a short silence, since programs take a refusal for a failure. */
function wordless() {
  return new ServerError("There is nothing in this text that can be spoken.", 0, { help: "Add some words." });
}

function silent() {
  return new ServerError("Nothing was spoken.", 0, { help: "Speak it again, or add some words." });
}
