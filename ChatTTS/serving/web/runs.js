/**
 * Two ways to play samples from one position on. Both have `feed`, `finish` (no more samples follow)
 * and `leave`, and report {position, time, isPlaying, isOver, underruns}; the time is that of the audio context.
 */

const FIRST_SECONDS = 0.04; // buffered before playback starts
const AGAIN_SECONDS = 0.25; // buffered before playback resumes after an underrun
const PIECE_SECONDS = 0.1;
const LEAD_SECONDS = 0.03;
const TICK_MS = 40;

/** Plays in the audio thread; the context must have the sample rate of the speech. */
export class WorkletRun {
  #node;

  constructor(context, output, position, report) {
    const processorOptions = {
      position,
      first: FIRST_SECONDS * context.sampleRate,
      again: AGAIN_SECONDS * context.sampleRate,
    };
    const options = { numberOfInputs: 0, outputChannelCount: [1], processorOptions };
    this.#node = new AudioWorkletNode(context, "speech", options);
    this.#node.port.onmessage = ({ data }) => {
      if (data.isOver) this.#node.disconnect();
      report(data);
    };
    this.#node.connect(output);
  }

  feed(samples) {
    this.#node.port.postMessage(samples, [samples.buffer]);
  }

  finish() {
    this.#node.port.postMessage("finish");
  }

  leave() {
    this.#node.port.postMessage("leave");
  }
}

/** Plays scheduled buffers: for pages without https, which have no worklets, and for other rates. */
export class BufferRun {
  #context;
  #gain;
  #rate;
  #report;
  #pending = [];
  #waiting = 0; // samples in it
  #position; // of the first pending sample
  #spans = []; // {at, position, samples}: what is scheduled when
  #until = 0;
  #needed;
  #isPlaying = false;
  #isFinished = false;
  #underruns = 0;
  #timer;

  constructor(context, output, position, report, rate) {
    this.#context = context;
    this.#rate = rate;
    this.#report = report;
    this.#position = position;
    this.#needed = FIRST_SECONDS * rate;
    this.#gain = context.createGain();
    this.#gain.connect(output);
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  feed(samples) {
    if (!samples.length) return;
    this.#pending.push(samples);
    this.#waiting += samples.length;
    this.#tick();
  }

  finish() {
    this.#isFinished = true;
    this.#tick();
  }

  leave() {
    clearInterval(this.#timer);
    const { currentTime } = this.#context;
    this.#gain.gain.setTargetAtTime(0, currentTime, 0.004);
    for (const { source } of this.#spans) source.stop(currentTime + LEAD_SECONDS);
  }

  #tick() {
    const now = this.#context.currentTime;
    const left = this.#until - now;
    if (this.#isPlaying && left <= 0 && !this.#waiting && !this.#isFinished) {
      this.#isPlaying = false;
      this.#underruns += 1;
      this.#needed = AGAIN_SECONDS * this.#rate;
    }
    const least = !this.#isPlaying ? this.#needed : left > PIECE_SECONDS ? PIECE_SECONDS * this.#rate : 1;
    if (this.#waiting && (this.#isFinished || this.#waiting >= least)) this.#schedule(now);
    const isOver = this.#isFinished && !this.#waiting && this.#until <= now;
    if (isOver) clearInterval(this.#timer);
    this.#tell(now, isOver);
  }

  #schedule(now) {
    const buffer = this.#context.createBuffer(1, this.#waiting, this.#rate);
    let at = 0;
    for (const samples of this.#pending) {
      buffer.copyToChannel(samples, 0, at);
      at += samples.length;
    }
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.#gain);
    // A start between two samples of the context would interpolate all following samples.
    const grid = this.#context.sampleRate;
    const start = Math.round(Math.max(this.#until, now + (this.#isPlaying ? 0 : LEAD_SECONDS)) * grid) / grid;
    source.start(start);
    this.#spans.push({ at: start, position: this.#position, samples: this.#waiting, source });
    this.#until = start + buffer.duration;
    this.#position += this.#waiting;
    this.#pending = [];
    this.#waiting = 0;
    this.#isPlaying = true;
  }

  #tell(now, isOver) {
    while (this.#spans.length > 1 && this.#spans[1].at <= now) this.#spans.shift();
    const [span] = this.#spans;
    const played = span ? Math.floor((now - span.at) * this.#rate) : 0;
    const position = span ? span.position + Math.min(span.samples, Math.max(0, played)) : this.#position;
    const isPlaying = this.#isPlaying && !isOver && span.at <= now;
    this.#report({ position, time: now, isPlaying, isOver, underruns: this.#underruns });
  }
}
