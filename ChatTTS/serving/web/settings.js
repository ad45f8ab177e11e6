/** The controls beside the text: all fields of a request except the text. */

import { recall, remember } from "./storage.js";

const $ = (id) => document.getElementById(id);
const KEPT = "settings";
const USUAL = { speed: 0, temperature: null, seed: "", refine: false, lowLatency: false };
const USUAL_TEMPERATURE = 0.3; // position of the slider while the voice's default applies

export class Settings {
  #ownTemperature = true;

  constructor() {
    this.#put(recall(KEPT, USUAL));
    $("speed").addEventListener("input", () => this.#changed());
    $("temperature").addEventListener("input", () => {
      this.#ownTemperature = false;
      this.#changed();
    });
    $("seed").addEventListener("input", () => {
      $("seed").value = $("seed").value.replace(/\D/g, "");
      this.#changed();
    });
    $("die").addEventListener("click", () => {
      $("seed").value = String(crypto.getRandomValues(new Uint32Array(1))[0] >>> 1);
      this.#changed();
    });
    $("refine").addEventListener("change", () => this.#changed());
    $("low-latency").addEventListener("change", () => this.#changed());
    $("reset").addEventListener("click", () => {
      this.#put(USUAL);
      this.#changed();
    });
  }

  /** The request fields that the user has set; the server's defaults apply to the others. */
  get fields() {
    const fields = { speed: this.#speed, refine: $("refine").checked, low_latency: $("low-latency").checked };
    if (!this.#ownTemperature) fields.temperature = Number($("temperature").value);
    if ($("seed").value) fields.seed = Number($("seed").value);
    return fields;
  }

  /** Set the controls to the fields of an earlier request. */
  put({ speed = 1, temperature = null, seed = "", refine = false, low_latency: lowLatency = false }) {
    this.#put({ speed: Math.log2(speed), temperature, seed: String(seed ?? ""), refine, lowLatency });
    this.#changed();
  }

  /** The slider is logarithmic: half and double are equally far from 1. */
  get #speed() {
    return Number((2 ** Number($("speed").value)).toFixed(2));
  }

  #put({ speed, temperature, seed, refine, lowLatency }) {
    this.#ownTemperature = temperature === null;
    $("speed").value = speed;
    $("temperature").value = temperature ?? USUAL_TEMPERATURE;
    $("seed").value = seed;
    $("refine").checked = refine;
    $("low-latency").checked = lowLatency;
    this.#show();
  }

  #changed() {
    this.#show();
    remember(KEPT, {
      speed: Number($("speed").value),
      temperature: this.#ownTemperature ? null : Number($("temperature").value),
      seed: $("seed").value,
      refine: $("refine").checked,
      lowLatency: $("low-latency").checked,
    });
  }

  #show() {
    const temperature = this.#ownTemperature ? "as the voice is" : Number($("temperature").value).toFixed(2);
    $("speed-out").value = `${this.#speed}×`;
    $("speed").setAttribute("aria-valuetext", `${this.#speed} times`);
    $("temperature-out").value = temperature;
    $("temperature").setAttribute("aria-valuetext", temperature);
    for (const slider of [$("speed"), $("temperature")]) {
      const share = (slider.value - slider.min) / (slider.max - slider.min);
      slider.style.setProperty("--share", share.toFixed(3));
    }
  }
}
