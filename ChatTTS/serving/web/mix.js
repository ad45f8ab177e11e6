/** A voice that the user mixes of others: chosen by buttons, weighed by sliders, and saved by a name. */

import { showHearing } from "./cards.js";
import { explain } from "./errors.js";
import { isolated } from "./words.js";

const $ = (id) => document.getElementById(id);
const MOST_PARTS = 8; // that the server takes
const USUAL_WEIGHT = 50;
const UNMIXED = { sample: "recordings", adapter: "trained voices" }; // by kind
const SPECIAL = /[,+:=()]/; // these stand between the names and weights of a mix

export class Mix {
  #server;
  #hooks;
  #offered = []; // voices that can be mixed
  #weights = new Map(); // by id, those of the mix alone, in order
  #sliders = new Map(); // by id: {root, slider, share}

  /** @param hooks {hear(voice, language), changed(), saved(id)} */
  constructor(server, hooks) {
    this.#server = server;
    this.#hooks = hooks;
    $("mix-hear").addEventListener("click", () => hooks.hear(this.blend, this.#offered[0]?.language));
    $("mix-save").addEventListener("click", () => this.#save());
    $("mix-name").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) this.#save();
    });
    $("mix-name").addEventListener("input", () => this.#showSave());
  }

  get isChosen() {
    return $("mix").checked && !$("mix-card").hidden;
  }

  /** As the server takes it, such as `anna:70,bert:30`. */
  get blend() {
    return [...this.#weights].map(([id, weight]) => `${id}:${weight}`).join(",");
  }

  /** @param voices all that have names of their own. */
  offer(voices) {
    this.#offered = voices.filter(({ id, kind }) => kind === "speaker" && !SPECIAL.test(id));
    const known = new Set(this.#offered.map(({ id }) => id));
    for (const id of this.#weights.keys()) if (!known.has(id)) this.#weights.delete(id);
    for (const { id } of this.#offered) if (this.#weights.size < 2) this.#weights.set(id, this.#weights.get(id) ?? USUAL_WEIGHT);
    $("mix-card").hidden = this.#offered.length < 2;
    if ($("mix-card").hidden) $("mix").checked = false;
    const kept = Object.keys(UNMIXED).filter((kind) => voices.some((voice) => voice.kind === kind));
    $("mix-unmixed").textContent = kept.length ? `; ${kept.map((kind) => UNMIXED[kind]).join(" and ")} cannot be mixed` : "";
    $("mix-parts").replaceChildren(...this.#offered.map((voice) => this.#part(voice)));
    this.#showParts();
  }

  /** Whether a text is a mix of voices that are here. */
  takes(voice) {
    return this.#read(voice) !== null;
  }

  /** Choose a mix, as `blend` gives it. */
  choose(voice) {
    this.#weights = this.#read(voice);
    $("mix").checked = true;
    for (const button of $("mix-parts").children) {
      button.setAttribute("aria-pressed", String(this.#weights.has(button.value)));
    }
    this.#showParts();
  }

  /** A mix in words, such as `70 % anna, 30 % bert`; "" for what is no mix. */
  described(voice) {
    const weights = this.#read(voice);
    return weights ? inWords(weights) : "";
  }

  showChosen() {
    $("mix-card").classList.toggle("chosen", this.isChosen);
    $("mix-panel").hidden = !this.isChosen;
  }

  /** @param {import("./preview.js").Previews} previews */
  showPreview(previews) {
    showHearing($("mix-hear"), previews.voice === this.blend ? previews.state : "idle", "your own mix");
  }

  #read(voice) {
    const parts = (voice ?? "").split(",").map((part) => /^([^:]+):(\d+)$/.exec(part));
    const isMix = parts.length > 1 && parts.every((part) => part && this.#offered.some(({ id }) => id === part[1]));
    return isMix ? new Map(parts.map(([, id, weight]) => [id, Number(weight)])) : null;
  }

  #part({ id, name }) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.dir = "auto";
    button.value = id;
    button.textContent = button.title = name;
    button.setAttribute("aria-pressed", String(this.#weights.has(id)));
    button.addEventListener("click", () => this.#toggle(id, button));
    return button;
  }

  #toggle(id, button) {
    if (this.#weights.has(id)) {
      if (this.#weights.size <= 2) return this.#tell("A mix has at least two voices.");
      this.#weights.delete(id);
    } else if (this.#weights.size >= MOST_PARTS) return this.#tell(`A mix has at most ${MOST_PARTS} voices.`);
    else this.#weights.set(id, USUAL_WEIGHT);
    button.setAttribute("aria-pressed", String(this.#weights.has(id)));
    this.#showParts();
    this.#hooks.changed();
  }

  #showParts() {
    this.#tell("");
    this.#sliders.clear();
    const rows = [...this.#weights].map(([id, weight]) => this.#row(id, weight));
    $("mix-sliders").replaceChildren(...rows);
    this.#showShares();
  }

  #row(id, weight) {
    const root = $("mix-row").content.cloneNode(true).querySelector(".field");
    const [label, share, slider] = [root.querySelector(".mix-name"), root.querySelector("output"), root.querySelector("input")];
    const name = this.#offered.find((voice) => voice.id === id).name;
    label.textContent = label.title = name;
    slider.value = weight;
    slider.setAttribute("aria-label", `Share of ${isolated(name)}`);
    slider.addEventListener("input", () => {
      this.#weights.set(id, Number(slider.value));
      this.#showShares();
    });
    slider.addEventListener("change", () => this.#hooks.changed());
    this.#sliders.set(id, { slider, share });
    return root;
  }

  #showShares() {
    const shares = sharesOf(this.#weights);
    for (const [id, { slider, share }] of this.#sliders) {
      share.value = `${shares.get(id)} %`;
      slider.setAttribute("aria-valuetext", share.value);
      slider.style.setProperty("--share", (slider.value / slider.max).toFixed(3));
    }
    $("mix-note").textContent = inWords(this.#weights);
    this.#showSave();
  }

  #showSave() {
    $("mix-save").disabled = !$("mix-name").value.trim();
    this.#tell("");
  }

  #tell(text) {
    $("mix-error").textContent = text;
  }

  async #save() {
    const name = $("mix-name").value.trim();
    if (!name || $("mix-save").disabled) return;
    const form = new FormData();
    form.set("name", name);
    form.set("speaker", this.blend);
    form.set("consent", `A mix of voices of this server: ${this.blend}.`);
    $("mix-save").disabled = true;
    try {
      await this.#server.addVoice(form);
    } catch (error) {
      this.#showSave();
      const { text, help } = explain(error);
      this.#tell(`${text} ${help}`);
      return;
    }
    $("mix-name").value = "";
    this.#hooks.saved(name);
  }
}

function sharesOf(weights) {
  const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
  return new Map([...weights].map(([id, weight]) => [id, Math.round((100 * weight) / total)]));
}

function inWords(weights) {
  return [...sharesOf(weights)].map(([id, share]) => `${share} % ${isolated(id)}`).join(", ");
}
