/** Error messages with a remedy: wait and try again, or enter a key. */

import { explain } from "./errors.js";

const $ = (id) => document.getElementById(id);

export class Notices {
  #keys;
  #again = null;
  #timer = 0;

  /** @param {import("./keys.js").Keys} keys asks for the key where one is missing. */
  constructor(keys) {
    this.#keys = keys;
    $("notice-close").addEventListener("click", () => this.clear());
    $("retry").addEventListener("click", () => this.#retry());
  }

  /**
   * @param {Error} error
   * @param {(() => void) | null} again does what failed once more.
   */
  show(error, again = null) {
    this.clear();
    if (error.status === 401) {
      this.#keys.ask(again);
      return;
    }
    this.#again = again;
    const { text, help, said } = explain(error);
    $("notice-text").textContent = text;
    $("notice-help").textContent = help;
    $("notice-said").textContent = said;
    $("notice-more").hidden = !said;
    $("notice-more").open = false;
    $("retry").hidden = !again;
    $("notice").hidden = false;
    this.#count(error.isBusy ? error.retryAfter : 0);
    $("notice").scrollIntoView({ block: "nearest" });
  }

  clear() {
    clearTimeout(this.#timer);
    this.#again = null;
    $("notice").hidden = true;
    $("notice-text").textContent = $("notice-help").textContent = "";
  }

  /** The countdown is in the button: a screen reader would read a changing message every second. */
  #count(left) {
    const button = $("retry");
    button.disabled = left > 0;
    button.textContent = left > 0 ? `Try again in ${left} s` : "Try again";
    if (left > 0) this.#timer = setTimeout(() => this.#count(left - 1), 1000);
  }

  #retry() {
    const again = this.#again;
    this.clear();
    again?.();
  }
}
