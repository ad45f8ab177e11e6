/** Asks for the API key of a server that needs one. */

const $ = (id) => document.getElementById(id);
const UNKNOWN = "The server doesn't know this key. Check it for typing errors.";
const NO_HEADER = /[^\x20-\x7e]/; // no request can carry these, so no server has them in a key

export class Keys {
  #server;
  #given;
  #again = [];

  /**
   * @param {import("./api.js").Server} server gets the key.
   * @param {() => void} given the server may answer now what it refused before.
   */
  constructor(server, given) {
    this.#server = server;
    this.#given = given;
    $("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#use();
    });
    $("key-cancel").addEventListener("click", () => $("key-dialog").close());
    $("key-show").addEventListener("change", ({ target }) => {
      $("key").type = target.checked ? "text" : "password";
    });
    $("key-dialog").addEventListener("close", () => {
      this.#again = [];
      $("key").value = "";
    });
  }

  /** @param {(() => void) | null} again is called once a key was given. */
  ask(again) {
    if (again) this.#again.push(again);
    $("key-error").textContent = this.#server.key ? UNKNOWN : "";
    if (!$("key-dialog").open) $("key-dialog").showModal();
    $("key").focus();
  }

  #use() {
    const key = $("key").value.trim();
    if (!key) return;
    if (NO_HEADER.test(key)) {
      $("key-error").textContent = UNKNOWN;
      return;
    }
    const waiting = this.#again;
    this.#server.key = key;
    $("key-dialog").close();
    for (const again of waiting) again();
    this.#given();
  }
}
