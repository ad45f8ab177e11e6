/** Records the microphone: sound as a file, with its length and level while it goes on. */

import { Track } from "./track.js";

export const MOST_SECONDS = 29; // the server takes 30
const TYPES = ["audio/webm;codecs=opus", "audio/mp4", "audio/ogg;codecs=opus", "audio/webm"];
const ENDINGS = { "audio/webm": "webm", "audio/mp4": "m4a", "audio/ogg": "ogg" };
const REPORT_MS = 60;
const WAV_RATE = 24000; // of the model
const WINDOW = 4096; // samples: longer than the time between reports
// What browsers do for calls would become a part of the voice.
const CONSTRAINTS = { channelCount: 1, echoCancellation: false, noiseSuppression: false };

/** Why the microphone cannot be used: a message for the user. */
export class MicrophoneError extends Error {}

/** A reason for which no recording is possible here; "" if there is none. */
export function obstacle() {
  if (!window.isSecureContext || !navigator.mediaDevices?.getUserMedia) {
    const here = `localhost:${location.port || 80}`;
    return `Browsers give pages the microphone only at a secure address. Open this page by https, or as ${here} on the machine that runs the server. Or choose a file.`;
  }
  return window.MediaRecorder ? "" : "This browser cannot record. Choose a file.";
}

export class Recorder {
  #report;
  #stream = null;
  #recorder = null;
  #context = null;
  #analyser = null;
  #timer = 0;
  #began = 0;
  #loudest = 0;
  #turn = 0; // a refused or cancelled start must not begin later

  /** @param {(seconds: number, level: number) => void} report called while it records; the level is 0 to 1. */
  constructor(report) {
    this.#report = report;
  }

  /**
   * @param {() => void} ended called if the recording ends by itself: it is long enough, or the microphone left.
   * @throws {MicrophoneError}
   */
  async start(ended) {
    const turn = ++this.#turn;
    const stream = await microphone();
    if (turn !== this.#turn) {
      release(stream);
      return;
    }
    this.#stream = stream;
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    this.#recorder = new MediaRecorder(stream, mimeType ? { mimeType } : {});
    this.#listen(stream);
    this.#loudest = 0;
    this.#began = performance.now();
    this.#recorder.start();
    stream.getAudioTracks()[0].addEventListener("ended", ended);
    this.#timer = setInterval(() => {
      const seconds = this.#seconds;
      this.#report(Math.min(seconds, MOST_SECONDS), this.#level());
      if (seconds >= MOST_SECONDS) ended();
    }, REPORT_MS);
  }

  get isOn() {
    return this.#recorder !== null;
  }

  /** @returns {Promise<{file: File, seconds: number, loudest: number} | null>} null if none was going on. */
  async stop() {
    const recorder = this.#recorder;
    if (!recorder) return null;
    const [seconds, loudest] = [this.#seconds, this.#loudest];
    this.#recorder = null;
    const parts = [];
    const done = new Promise((resolve) => {
      recorder.addEventListener("dataavailable", ({ data }) => parts.push(data));
      recorder.addEventListener("stop", resolve, { once: true });
    });
    if (recorder.state !== "inactive") recorder.stop();
    await done;
    this.cancel();
    const type = recorder.mimeType.split(";")[0];
    const recorded = new File(parts, `recording.${ENDINGS[type] ?? "webm"}`, { type });
    return { file: type === "audio/mp4" ? await asWav(recorded) : recorded, seconds, loudest };
  }

  /** Let the microphone go, and forget what was recorded. */
  cancel() {
    this.#turn += 1;
    clearInterval(this.#timer);
    this.#recorder = null;
    release(this.#stream);
    this.#stream = null;
    this.#context?.close();
    this.#context = null;
  }

  get #seconds() {
    return (performance.now() - this.#began) / 1000;
  }

  #listen(stream) {
    this.#context = new AudioContext();
    this.#analyser = this.#context.createAnalyser();
    this.#analyser.fftSize = WINDOW;
    this.#context.createMediaStreamSource(stream).connect(this.#analyser);
  }

  #level() {
    const samples = new Float32Array(this.#analyser.fftSize);
    this.#analyser.getFloatTimeDomainData(samples);
    const level = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    this.#loudest = Math.max(this.#loudest, level);
    return level;
  }
}

/** WebKitGTK writes an MP4 that it reads itself, but whose later parts other programs don't find. */
async function asWav(recorded) {
  try {
    const sound = await new OfflineAudioContext(1, 1, WAV_RATE).decodeAudioData(await recorded.arrayBuffer());
    const channels = Array.from({ length: sound.numberOfChannels }, (_, i) => sound.getChannelData(i));
    const bytes = new DataView(new ArrayBuffer(2 * sound.length));
    for (let i = 0; i < sound.length; i++) {
      const mean = channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length;
      bytes.setInt16(2 * i, Math.max(-1, Math.min(1, mean)) * 32767, true);
    }
    const track = new Track(WAV_RATE);
    track.append(new Uint8Array(bytes.buffer));
    return new File([track.wav()], "recording.wav", { type: "audio/wav" });
  } catch {
    return recorded; // the server may read it
  }
}

async function microphone() {
  const reason = obstacle();
  if (reason) throw new MicrophoneError(reason);
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: CONSTRAINTS });
  } catch (error) {
    throw new MicrophoneError(said(error));
  }
}

function said({ name }) {
  if (name === "NotAllowedError" || name === "SecurityError") {
    return "The microphone was not allowed. Allow it for this page in the browser's address bar, and record again. Or choose a file.";
  }
  if (name === "NotFoundError") return "There is no microphone. Connect one, or choose a file.";
  if (name === "NotReadableError") return "Another program uses the microphone. Close it, and record again.";
  return "The microphone cannot be used. Choose a file.";
}

function release(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
