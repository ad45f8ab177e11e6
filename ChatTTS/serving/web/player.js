/** Plays one track at a time, also while it grows; pauses and seeks. */

import { BufferRun, WorkletRun } from "./runs.js";

const USUAL_RATE = 24000;
const AHEAD_SECONDS = 30; // sent ahead to the audio thread: a seek need not copy an hour
const FADE_SECONDS = 0.015;
const REST_MS = 400;

/**
 * Events: `change` (of state, position or underruns) and `first` (the first sample is played).
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
  #fed = 0; // samples of the track sent to the audio thread; -1 once all were sent
  #report = { position: 0, time: 0, isPlaying: false, isOver: false, underruns: 0 };
  #earlierUnderruns = 0;
  #hasSounded = false;
  #rest = 0;

  constructor() {
    super();
    this.state = "empty";
  }

  /** The position that is played now, in samples. */
  get position() {
    if (!this.#track) return 0;
    const since = this.state === "playing" ? this.clock - this.#report.time : 0;
    return Math.min(this.#track.length, this.#report.position + Math.max(0, since) * this.#track.rate);
  }

  /** Number of underruns. */
  get underruns() {
    return this.#earlierUnderruns + this.#report.underruns;
  }

  /** Seconds of the audio clock. */
  get clock() {
    return this.#context?.currentTime ?? 0;
  }

  /** Call it from a click or key press handler: browsers allow no sound before one. */
  unlock() {
    if (!this.#context) {
      // The ring switch of an iPhone mutes web audio unless the session type is "playback".
      if (navigator.audioSession) navigator.audioSession.type = "playback";
      this.#context = makeContext();
      this.#volume = this.#context.createGain();
      this.#volume.connect(this.#context.destination);
      this.#hasWorklet = loadWorklet(this.#context);
    }
    this.#wake();
  }

  /** Play a track from its beginning; call `grew` whenever it has more samples. */
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
    const [from, ahead] = [this.#fed, Math.floor(this.#report.position + AHEAD_SECONDS * rate)];
    const to = Math.min(length, ahead);
    const isLast = isComplete && to === length;
    this.#fed = isLast ? -1 : Math.max(from, to); // set first: a run may report while it receives samples
    if (to > from) this.#run.feed(this.#track.samples(from, to));
    if (isLast) this.#run?.finish();
  }

  /** Pause, resume, or start again after the end. */
  toggle() {
    if (this.state === "playing" || this.state === "waiting") this.#pause();
    else if (this.state === "paused") this.#resume();
    else if (this.state === "ended") this.#start(0);
  }

  /** Pause what is playing. */
  pause() {
    if (this.state === "playing" || this.state === "waiting") this.#pause();
  }

  /** Seek to a sample; a paused player stays paused, one that ended plays. */
  seek(sample) {
    if (!this.#track?.length) return;
    this.#start(Math.max(0, Math.min(sample, this.#track.length - 1)), this.state === "paused");
    this.dispatchEvent(new Event("change"));
  }

  /** Play from a sample, whatever the state. */
  playFrom(sample) {
    if (this.state === "paused") this.toggle();
    this.seek(sample);
  }

  /** Stop playing and keep the position. */
  stop() {
    if (!this.#track) return;
    const reached = this.position;
    this.#leave();
    this.#report = { ...this.#report, position: reached, isPlaying: false };
    this.#become("ended");
    this.#retire();
  }

  /** Release the track. */
  clear() {
    this.stop();
    this.#track = null;
    this.#become("empty");
  }

  async #start(position, isPaused = false) {
    this.#leave();
    const turn = this.#turn;
    this.#report = { position, time: 0, isPlaying: false, isOver: false, underruns: 0 };
    this.#become(isPaused ? "paused" : "waiting");
    if (!isPaused) this.#wake();
    const hasWorklet = await this.#hasWorklet;
    if (turn !== this.#turn) return;
    const fits = hasWorklet && this.#context.sampleRate === this.#track.rate;
    const Run = fits ? WorkletRun : BufferRun;
    const onReport = (report) => turn === this.#turn && this.#hear(report);
    this.#run = new Run(this.#context, this.#volume, position, onReport, this.#track.rate);
    this.#fed = position;
    this.grew();
  }

  /** End the current run and ignore its further reports. */
  #leave() {
    this.#turn += 1;
    this.#run?.leave();
    this.#run = null;
    this.#earlierUnderruns += this.#report.underruns;
    this.#report.underruns = 0;
  }

  #hear(report) {
    const ranDry = report.underruns !== this.#report.underruns;
    this.#report = report;
    if (report.isPlaying && !this.#hasSounded) {
      this.#hasSounded = true;
      this.dispatchEvent(new Event("first"));
    }
    if (report.isOver) {
      this.#run = null;
      this.#become("ended");
      this.#retire();
    } else if (this.state !== "paused") {
      this.#become(report.isPlaying ? "playing" : "waiting");
    }
    if (ranDry) this.dispatchEvent(new Event("change"));
    this.grew();
  }

  #pause() {
    this.#report = { ...this.#report, position: this.position };
    this.#become("paused");
    this.#fade(0);
    this.#retire(FADE_SECONDS * 2000);
  }

  #resume() {
    this.#report = { ...this.#report, time: this.clock };
    this.#become(this.#report.isPlaying ? "playing" : "waiting");
    this.#wake();
  }

  #wake() {
    clearTimeout(this.#rest);
    this.#context.resume();
    this.#fade(1);
  }

  /** An unused audio clock would drain a phone's battery. */
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
    return new AudioContext(); // the device supports one sample rate only
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
