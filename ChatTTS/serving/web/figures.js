/** What developers want to know of the speech: how fast it came, and the command that gives it. */

import { recall } from "./storage.js";
import { duration } from "./words.js";

const $ = (id) => document.getElementById(id);
const NONE = "–";

export class Figures {
  constructor() {
    $("curl-copy").addEventListener("click", () => this.#copy());
  }

  clear(fields) {
    for (const id of ["first-sound", "factor", "underruns", "seed-used"]) $(id).textContent = NONE;
    this.#command(fields);
  }

  /** @param {number} ms from the request to the first sound that was heard. */
  sounded(ms) {
    $("first-sound").textContent = duration(ms);
  }

  /** @param speaking the running or finished request. */
  grow({ factor, fields }) {
    if (factor > 0) $("factor").textContent = `${factor.toFixed(2)}×`;
    const seed = String(fields.seed ?? NONE);
    if ($("seed-used").textContent === seed) return;
    $("seed-used").textContent = seed;
    this.#command(fields);
  }

  set underruns(count) {
    $("underruns").textContent = String(count);
  }

  /** The key itself is not shown: a screenshot would tell it. */
  #command(fields) {
    const body = JSON.stringify({ model: "chattts", ...fields, response_format: "mp3" });
    const lines = [
      `curl ${quoted(new URL("v1/audio/speech", document.baseURI).href)}`,
      "-H 'Content-Type: application/json'",
      ...(recall("key", "") ? ['-H "Authorization: Bearer $CHATTTS_API_KEY"'] : []),
      `-d ${quoted(body)} -o speech.mp3`,
    ];
    $("curl").textContent = lines.join(" \\\n  ");
    $("curl-copy").textContent = "Copy";
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText($("curl").textContent);
      $("curl-copy").textContent = "Copied";
    } catch {
      // Pages without https may not write there; the text can be selected.
      getSelection().selectAllChildren($("curl"));
      $("curl-copy").textContent = "Selected: press Ctrl C";
    }
  }
}

/** For a shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
