/** One sound at a time: plays a track while it grows, pauses, seeks. */

import { BufferRun, WorkletRun } from "./runs.js";

const USUAL_RATE = 24000;
const AHEAD_SECONDS = 30; // given to the audio thread beforehand: a seek need not copy an hour
const FADE_SECONDS = 0.015;
const REST_MS = 400;

/**
 * Events: `change` (another state or place, or more underruns) and `first` (the first sample sounds).
 *
 * States: `empty`; `waiting` for samples; `playing`; `paused`; `ended`.
 */
export class Player extends EventTarget {
  #context = null;
  #volume = null;
  #hasWorklet = null; // a promise of a boolean
  #track = null;
  #run = null;
  #turn = 0;
  #fed = 0; // of the track; -1 when all of it was given
  #told = { position: 0, time: 0, isPlaying: false, isOver: false, underruns: 0 };
  #earlierUnderruns = 0;
  #hasSounded = false;
  #rest = 0;

  constructor() {
    super();
    this.state = "empty";
  }

  /** Samples from the beginning to what is heard now. */
  get position() {
    if (!this.#track) return 0;
    const since = this.state === "playing" ? this.clock - this.#told.time : 0;
    return Math.min(this.#track.length, this.#told.position + Math.max(0, since) * this.#track.rate);
  }

  /** Times that the player ran dry. */
  get underruns() {
    return this.#earlierUnderruns + this.#told.underruns;
  }

  /** Seconds of the audio clock. */
  get clock() {
    return this.#context?.currentTime ?? 0;
  }

  /** To be called in a click or a key press: browsers let nothing sound before one. */
  unlock() {
    if (!this.#context) {
      // iPhones mute web audio by their ring switch unless a page says that it plays.
      if (navigator.audioSession) navigator.audioSession.type = "playback";
      this.#context = makeContext();
      this.#volume = this.#context.createGain();
      this.#volume.connect(this.#context.destination);
      this.#hasWorklet = loadWorklet(this.#context);
    }
    this.#wake();
  }

  /** Play a track from its beginning; it may still grow, and is told of by `grew`. */
  play(track) {
    this.#leave();
    this.#track = track;
    this.#earlierUnderruns = 0;
    this.#hasSounded = false;
    this.#start(0);
  }

  /** The track has more samples, or is complete. */
  grew() {
    if (!this.#run || this.#fed < 0) return;
    const { length, rate, isComplete } = this.#track;
    const [from, ahead] = [this.#fed, Math.floor(this.#told.position + AHEAD_SECONDS * rate)];
    const to = Math.min(length, ahead);
    const isLast = isComplete && to === length;
    this.#fed = isLast ? -1 : Math.max(from, to); // set first: a run may report while it is fed
    if (to > from) this.#run.feed(this.#track.samples(from, to));
    if (isLast) this.#run?.finish();
  }

  /** Pause, go on, or begin again after the end. */
  toggle() {
    if (this.state === "playing" || this.state === "waiting") this.#pause();
    else if (this.state === "paused") this.#resume();
    else if (this.state === "ended") this.#start(0);
  }

  /** Go to a sample; a paused player stays paused, one that ended plays. */
  seek(sample) {
    if (!this.#track?.length) return;
    this.#start(Math.max(0, Math.min(sample, this.#track.length - 1)), this.state === "paused");
    this.dispatchEvent(new Event("change"));
  }

  /** Silence, and the place that was reached stays. */
  stop() {
    if (!this.#track) return;
    const reached = this.position;
    this.#leave();
    this.#told = { ...this.#told, position: reached, isPlaying: false };
    this.#become("ended");
    this.#retire();
  }

  /** Let go of the track. */
  clear() {
    this.stop();
    this.#track = null;
    this.#become("empty");
  }

  async #start(position, isPaused = false) {
    this.#leave();
    const turn = this.#turn;
    this.#told = { position, time: 0, isPlaying: false, isOver: false, underruns: 0 };
    this.#become(isPaused ? "paused" : "waiting");
    if (!isPaused) this.#wake();
    const hasWorklet = await this.#hasWorklet;
    if (turn !== this.#turn) return;
    const fits = hasWorklet && this.#context.sampleRate === this.#track.rate;
    const Run = fits ? WorkletRun : BufferRun;
    const report = (told) => turn === this.#turn && this.#hear(told);
    this.#run = new Run(this.#context, this.#volume, position, report, this.#track.rate);
    this.#fed = position;
    this.grew();
  }

  /** End the present run; what it still reports is of no interest. */
  #leave() {
    this.#turn += 1;
    this.#run?.leave();
    this.#run = null;
    this.#earlierUnderruns += this.#told.underruns;
    this.#told.underruns = 0;
  }

  #hear(told) {
    const ranDry = told.underruns !== this.#told.underruns;
    this.#told = told;
    if (told.isPlaying && !this.#hasSounded) {
      this.#hasSounded = true;
      this.dispatchEvent(new Event("first"));
    }
    if (told.isOver) {
      this.#run = null;
      this.#become("ended");
      this.#retire();
    } else if (this.state !== "paused") {
      this.#become(told.isPlaying ? "playing" : "waiting");
    }
    if (ranDry) this.dispatchEvent(new Event("change"));
    this.grew();
  }

  #pause() {
    this.#told = { ...this.#told, position: this.position };
    this.#become("paused");
    this.#fade(0);
    this.#retire(FADE_SECONDS * 2000);
  }

  #resume() {
    this.#told = { ...this.#told, time: this.clock };
    this.#become(this.#told.isPlaying ? "playing" : "waiting");
    this.#wake();
  }

  #wake() {
    clearTimeout(this.#rest);
    this.#context.resume();
    this.#fade(1);
  }

  /** A clock that runs for nothing costs a phone's battery. */
  #retire(after = REST_MS) {
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.#context.suspend(), after);
  }

  #fade(to) {
    const { gain } = this.#volume;
    gain.cancelScheduledValues(this.clock);
    gain.setTargetAtTime(to, this.clock, FADE_SECONDS / 3);
  }

  #become(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new Event("change"));
  }
}

function makeContext() {
  try {
    return new AudioContext({ sampleRate: USUAL_RATE, latencyHint: "interactive" });
  } catch {
    return new AudioContext(); // a device with one rate only
  }
}

async function loadWorklet(context) {
  if (!context.audioWorklet) return false;
  try {
    await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
    return true;
  } catch {
    return false;
  }
}
