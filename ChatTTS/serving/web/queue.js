/** Shows how busy the server is; it asks only while the page is visible. */

const EVERY_MS = 2000;
const AFTER_FAILURE_MS = 10_000;

export class Queue {
  #server;
  #label;
  #text;
  #told;
  #timer = 0;
  #isAsking = false;

  /**
   * @param {(isBack: boolean) => void} told called when the server has told its state; it is back if it was out of
   *   reach before.
   */
  constructor(server, label, text, told) {
    this.#server = server;
    this.#label = label;
    this.#text = text;
    this.#told = told;
    document.addEventListener("visibilitychange", () => this.watch());
  }

  /** Start asking, if that does not go on already. */
  watch() {
    clearTimeout(this.#timer);
    if (!document.hidden && !this.#isAsking) this.#ask();
  }

  async #ask() {
    this.#isAsking = true;
    let next = EVERY_MS;
    try {
      const { running, waiting } = await this.#server.status();
      this.#told(this.#label.dataset.state === "away");
      const state = waiting > 0 ? "full" : running > 0 ? "busy" : "idle";
      this.#tell(state, state === "idle" ? "Ready" : said(running, waiting));
    } catch (error) {
      next = AFTER_FAILURE_MS;
      if (error.isBusy) this.#tell("full", "Busy");
      else this.#tell("away", "Not reachable");
    } finally {
      this.#isAsking = false;
    }
    if (!document.hidden) this.#timer = setTimeout(() => this.#ask(), next);
  }

  #tell(state, text) {
    this.#label.dataset.state = state;
    if (this.#text.textContent !== text) this.#text.textContent = text;
  }
}

function said(running, waiting) {
  return waiting > 0 ? `Busy, ${waiting} waiting` : `${running} speaking`;
}
