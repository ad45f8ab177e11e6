/** The part of the page with the waveform, the text that is spoken, and the playback buttons. */

import { Transcript } from "./transcript.js";
import { Waveform } from "./waveform.js";
import { clock } from "./words.js";

const $ = (id) => document.getElementById(id);
const STEP_SECONDS = 1;

export class Stage {
  #player;
  #figures;
  #wave;
  #transcript;
  #root = $("stage");
  #speaking = null;
  #isStreaming = false;
  #frame = 0;

  constructor(player, figures, tags) {
    this.#player = player;
    this.#figures = figures;
    this.#wave = new Waveform($("wave"), () => this.#animate());
    const playFrom = (seconds) => this.#player.playFrom(Math.floor(seconds * this.#wave.track.rate));
    this.#transcript = new Transcript($("transcript"), $("faults"), tags, playFrom);
    player.addEventListener("change", () => this.#changed());
    player.addEventListener("first", () => this.#sounded());
    $("pause").addEventListener("click", () => this.#player.toggle());
    this.#listen($("wave"));
    this.#changed();
  }

  /** Called when a request was sent, or before an old sound is played. */
  expect(speaking) {
    this.#speaking = speaking;
    this.#isStreaming = true;
    this.#player.clear();
    this.#wave.track = null;
    this.#transcript.begin(speaking.fields.input);
    this.#root.dataset.received = "0";
    this.#figures.clear(speaking.fields);
    $("spoken").textContent = "";
    this.#changed();
    this.#root.scrollIntoView({ block: "nearest" });
  }

  /** Called when more samples have come. */
  grow(speaking) {
    const { track } = speaking;
    this.#wave.track = track;
    this.#transcript.grow(track);
    this.#root.dataset.received = String(track.length);
    this.#figures.grow(speaking);
    this.#animate();
  }

  /** Called when no more samples follow, for any reason. */
  finish(speaking) {
    this.#isStreaming = false;
    if (speaking.track) this.grow(speaking);
    this.#changed();
  }

  #listen(wave) {
    const seek = ({ offsetX }) => this.#player.seek(this.#wave.sampleAt(offsetX));
    wave.addEventListener("pointerdown", (event) => {
      if (event.button === 0) seek(event);
    });
    wave.addEventListener("keydown", (event) => {
      const { track } = this.#wave;
      if (!track || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = STEP_SECONDS * track.rate;
      const here = this.#player.position;
      const places = { ArrowRight: here + step, ArrowUp: here + step, Home: 0 };
      const more = { ArrowLeft: here - step, ArrowDown: here - step, End: track.length - 1 };
      const place = { ...places, ...more }[event.key];
      if (place === undefined && event.key !== " ") return;
      event.preventDefault();
      if (event.key === " ") this.#player.toggle();
      else this.#player.seek(Math.floor(place));
    });
  }

  #sounded() {
    // An old sound plays at once, so its times say nothing about the server.
    if (this.#speaking?.tookMs) this.#figures.sounded(performance.now() - this.#speaking.began);
  }

  #changed() {
    const { state, underruns } = this.#player;
    const isOn = state === "playing" || state === "waiting";
    this.#root.dataset.state = this.#isStreaming && state === "empty" ? "waiting" : state;
    this.#root.dataset.underruns = String(underruns);
    if (this.#wave.track) this.#figures.underruns = underruns;
    $("stop").disabled = !(this.#isStreaming || isOn);
    $("pause").disabled = state === "empty";
    $("pause").setAttribute("aria-label", isOn ? "Pause" : "Play");
    $("pause-icon").setAttribute("href", isOn ? "#icon-pause" : "#icon-play");
    $("wave").setAttribute("aria-disabled", String(state === "empty"));
    $("speak").classList.toggle("waits", this.#root.dataset.state === "waiting");
    const isSavable = !this.#isStreaming && Boolean(this.#speaking?.track?.length);
    $("saves").hidden = !isSavable;
    for (const button of document.querySelectorAll("[data-format]")) button.disabled = !isSavable;
    const hasCues = isSavable && this.#speaking.track.cues.length > 0;
    for (const button of document.querySelectorAll("[data-subtitles]")) button.disabled = !hasCues;
    if (state === "ended" && !this.#isStreaming) $("spoken").textContent = "The speech has ended.";
    this.#animate();
  }

  #animate() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    const { position, state } = this.#player;
    const { track } = this.#wave;
    const isWaiting = this.#isStreaming && !track;
    const moves = this.#wave.draw(position, isWaiting);
    const seconds = track ? position / track.rate : 0;
    const all = track ? track.seconds : 0;
    show($("time-now"), clock(seconds));
    show($("time-all"), clock(all));
    const isOver = state === "empty" || (state === "ended" && seconds >= all);
    this.#transcript.mark(isOver ? -1 : seconds);
    this.#root.dataset.position = seconds.toFixed(3);
    this.#root.dataset.clock = this.#player.clock.toFixed(3);
    describe($("wave"), seconds, all);
    if (moves || state === "playing") this.#animate();
  }
}

function show(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** For screen readers: whole seconds only, so that they do not announce every change. */
function describe(wave, seconds, all) {
  const [now, most] = [Math.floor(seconds), Math.floor(all)];
  if (wave.ariaValueNow === String(now) && wave.ariaValueMax === String(most)) return;
  wave.ariaValueNow = String(now);
  wave.ariaValueMax = String(most);
  wave.ariaValueText = all ? `${now} of ${most} seconds` : "nothing yet";
}
