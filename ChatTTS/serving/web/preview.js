/** Speaks a short sentence in a voice, so that voices can be compared; what was spoken is kept. */

import { Player } from "./player.js";
import { Speaking } from "./speaking.js";

const SENTENCES = {
  en: "Hello there. This is how I sound when I read to you.",
  zh: "你好，我是这样说话的。",
};
const SEED = 1; // a voice sounds the same each time
const MOST_KEPT = 32;

/** Events: `change` (of `voice` or `state`) and `begin` (other sound should stop). */
export class Previews extends EventTarget {
  #server;
  #failed;
  #player = new Player();
  #kept = new Map(); // tracks by voice, the oldest first
  #speaking = null;
  #state = "idle";

  /**
   * @param {import("./api.js").Server} server
   * @param {(error: Error, again: () => void) => void} failed
   */
  constructor(server, failed) {
    super();
    this.#server = server;
    this.#failed = failed;
    this.voice = null; // that is being heard
    this.#player.addEventListener("change", () => this.#changed());
  }

  /** `idle`, `loading` or `playing`. */
  get state() {
    return this.#state;
  }

  /** Play the sentence of a voice, or stop it. */
  async toggle(voice, language) {
    const isOn = this.voice === voice;
    this.stop();
    if (isOn) return;
    this.dispatchEvent(new Event("begin"));
    this.voice = voice;
    this.#player.unlock();
    this.#become("loading");
    const track = this.#kept.get(voice);
    if (track) this.#player.play(track);
    else await this.#speak(voice, language);
  }

  stop() {
    this.#speaking?.abort();
    this.#speaking = this.voice = null;
    this.#player.stop();
    this.#become("idle");
  }

  /** Forget a voice that changed. */
  forget(voice) {
    this.#kept.delete(voice);
  }

  async #speak(voice, language) {
    const fields = { input: SENTENCES[language] ?? SENTENCES.en, seed: SEED };
    const speaking = new Speaking(voice ? { ...fields, voice } : fields);
    this.#speaking = speaking;
    try {
      const isNow = () => this.#speaking === speaking;
      const begun = () => isNow() && this.#player.play(speaking.track);
      await speaking.run(this.#server, begun, () => isNow() && this.#player.grew());
      if (speaking.finishReason) this.#keep(voice, speaking.track);
    } catch (error) {
      if (this.#speaking !== speaking) return;
      this.stop();
      this.#failed(error, () => this.toggle(voice, language));
    }
  }

  #keep(voice, track) {
    this.#kept.set(voice, track);
    if (this.#kept.size > MOST_KEPT) this.#kept.delete(this.#kept.keys().next().value);
  }

  #changed() {
    if (this.voice === null) return;
    if (this.#player.state === "ended") this.stop();
    else this.#become(this.#player.state === "playing" ? "playing" : "loading");
  }

  #become(state) {
    this.#state = state;
    this.dispatchEvent(new Event("change"));
  }
}
