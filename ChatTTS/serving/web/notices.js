/** Error messages with a remedy: wait and try again, or enter a key. */

const $ = (id) => document.getElementById(id);

export class Notices {
  #server;
  #keyGiven;
  #again = null;
  #timer = 0;

  /**
   * @param {import("./api.js").Server} server gets the key.
   * @param {() => void} keyGiven the server may answer now what it refused before.
   */
  constructor(server, keyGiven) {
    this.#server = server;
    this.#keyGiven = keyGiven;
    $("notice-close").addEventListener("click", () => this.clear());
    $("retry").addEventListener("click", () => this.#retry());
    $("key-use").addEventListener("click", () => this.#useKey());
    $("key").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // otherwise the form would be submitted
      this.#useKey();
    });
  }

  /**
   * @param {Error} error
   * @param {(() => void) | null} again does what failed once more.
   */
  show(error, again = null) {
    this.clear();
    this.#again = again;
    const wantsKey = error.status === 401;
    const wait = error.isBusy ? error.retryAfter : 0;
    $("notice-text").textContent = wait
      ? `The server is busy: try again in ${wait} s. ${error.message}`
      : error.message;
    $("key-row").hidden = !wantsKey;
    $("retry").hidden = wantsKey || !again;
    $("notice").hidden = false;
    this.#count(wait);
    if (wantsKey) $("key").focus();
  }

  clear() {
    clearTimeout(this.#timer);
    this.#again = null;
    $("notice").hidden = true;
    $("notice-text").textContent = "";
  }

  /** The countdown is in the button: a screen reader would read a changing message every second. */
  #count(left) {
    const button = $("retry");
    button.disabled = left > 0;
    button.textContent = left > 0 ? `Try again in ${left} s` : "Try again";
    if (left > 0) this.#timer = setTimeout(() => this.#count(left - 1), 1000);
  }

  #useKey() {
    const key = $("key").value.trim();
    if (!key) return;
    this.#server.key = key;
    $("key").value = "";
    this.#retry();
    this.#keyGiven();
  }

  #retry() {
    const again = this.#again;
    this.clear();
    again?.();
  }
}
