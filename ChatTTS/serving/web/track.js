/** The speech received so far: its s16le bytes, peaks for drawing, and its words. */

const PEAKS_PER_SECOND = 200;
const FIRST_BYTES = 1 << 18;
const HEADER_BYTES = 44;

export class Track {
  #bytes = new Uint8Array(FIRST_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #filled = 0; // bytes; odd while half a sample has come
  #peaks = [];
  #bucket; // samples per peak

  /** @param {number} rate samples per second. */
  constructor(rate) {
    this.rate = rate;
    this.isComplete = false;
    this.words = []; // {word, start, end, start_character, end_character}, with times in seconds
    this.faults = []; // {kind, text, start_character, end_character}: what the server's guard found
    this.voice = ""; // that speaks, by the server's name
    this.leftOut = []; // letters and words that the voice cannot speak
    this.cues = []; // subtitles: {start, end, lines}, known at the end
    this.loudest = 0;
    this.#bucket = Math.max(1, Math.round(rate / PEAKS_PER_SECOND));
  }

  /** Number of samples received. */
  get length() {
    return this.#filled >> 1;
  }

  get seconds() {
    return this.length / this.rate;
  }

  /** Memory use in bytes. */
  get size() {
    return this.#bytes.length;
  }

  /** @param {Uint8Array} bytes of any length, which may be odd. */
  append(bytes) {
    this.#reserve(this.#filled + bytes.length);
    const before = this.length;
    this.#bytes.set(bytes, this.#filled);
    this.#filled += bytes.length;
    for (let i = before; i < this.length; i++) {
      const level = Math.abs(this.#sample(i));
      const at = Math.floor(i / this.#bucket);
      if (!(this.#peaks[at] >= level)) this.#peaks[at] = level;
      if (level > this.loudest) this.loudest = level;
    }
  }

  /** No more bytes follow; release the spare memory. */
  complete() {
    this.isComplete = true;
    this.#hold(this.#filled);
  }

  /** Samples from..to, -1 to 1. */
  samples(from, to = this.length) {
    const out = new Float32Array(Math.max(0, to - from));
    for (let i = 0; i < out.length; i++) out[i] = this.#sample(from + i);
    return out;
  }

  /** The loudest sample between two times in seconds, 0 to 1. */
  peak(from, to) {
    const first = Math.floor((from * this.rate) / this.#bucket);
    const last = Math.max(first + 1, Math.floor((to * this.rate) / this.#bucket));
    let highest = 0;
    for (let i = first; i < last && i < this.#peaks.length; i++) {
      if (this.#peaks[i] > highest) highest = this.#peaks[i];
    }
    return highest;
  }

  /**
   * A WAV file with exactly the samples that were received.
   * @param {Uint8Array} mark a chunk to stand behind them.
   */
  wav(mark) {
    const size = this.length * 2;
    const header = new DataView(new ArrayBuffer(HEADER_BYTES));
    const write = (at, text) => {
      for (let i = 0; i < text.length; i++) header.setUint8(at + i, text.charCodeAt(i));
    };
    write(0, "RIFF");
    header.setUint32(4, HEADER_BYTES - 8 + size + mark.length, true);
    write(8, "WAVEfmt ");
    header.setUint32(16, 16, true); // bytes of this chunk
    header.setUint16(20, 1, true); // PCM
    header.setUint16(22, 1, true); // channels
    header.setUint32(24, this.rate, true);
    header.setUint32(28, this.rate * 2, true);
    header.setUint16(32, 2, true); // bytes per sample of all channels
    header.setUint16(34, 16, true); // bits
    write(36, "data");
    header.setUint32(40, size, true);
    return new Blob([header, this.#bytes.subarray(0, size), mark], { type: "audio/wav" });
  }

  #sample(i) {
    return this.#view.getInt16(2 * i, true) / 32768;
  }

  #reserve(bytes) {
    if (bytes > this.#bytes.length) this.#hold(Math.max(bytes, 2 * this.#bytes.length));
  }

  #hold(bytes) {
    const grown = new Uint8Array(bytes);
    grown.set(this.#bytes.subarray(0, this.#filled));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}
