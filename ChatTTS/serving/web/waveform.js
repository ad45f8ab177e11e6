/** Draws a track: bars of its peaks, the played part in another colour, and a playhead. */

const BAR = 3; // CSS pixels
const PITCH = 5;
const LEAST_HEIGHT = 3;
const FIRST_SECONDS = 4; // shown while the length is not known yet
const QUIETEST = 0.2; // quieter speech is not scaled to the full height
const EASE = 0.28;
const SETTLED = 0.004;

export class Waveform {
  #canvas;
  #paint;
  #colours = {};
  #width = 0;
  #height = 0;
  #levels = new Float32Array(0); // as drawn, moving towards their true values
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => void} changed the picture must be drawn again.
   */
  constructor(canvas, changed) {
    this.#canvas = canvas;
    this.#paint = canvas.getContext("2d");
    this.track = null;
    new ResizeObserver(() => {
      this.#measure();
      changed();
    }).observe(canvas);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", () => {
        this.#readColours();
        changed();
      });
    }
    this.#readColours();
  }

  /** The sample at a distance from the left edge, in CSS pixels. */
  sampleAt(x) {
    if (!this.track) return 0;
    return Math.floor((x / PITCH) * this.#secondsPerBar() * this.track.rate);
  }

  /**
   * @param {number} position the sample that is heard.
   * @param {boolean} isWaiting for the first sound.
   * @returns {boolean} whether it still moves by itself.
   */
  draw(position, isWaiting) {
    const { track } = this;
    const paint = this.#paint;
    const perBar = this.#secondsPerBar();
    const heard = track ? position / track.rate / perBar : 0;
    const there = track ? track.seconds / perBar : 0;
    const gain = track ? 1 / Math.max(QUIETEST, track.loudest) : 0;
    const tallest = this.#height - 2 * PITCH;
    const breathes = isWaiting && !this.#still.matches;
    let moves = breathes;
    paint.clearRect(0, 0, this.#width, this.#height);
    for (let i = 0; i < this.#levels.length; i++) {
      const peak = i < there ? track.peak(i * perBar, (i + 1) * perBar) * gain : 0;
      const target = breathes ? breath(i) : peak ** 0.8;
      moves = this.#approach(i, target) || moves;
      const height = Math.max(LEAST_HEIGHT, this.#levels[i] * tallest);
      paint.fillStyle = i + 0.5 < heard ? this.#colours.heard : i < there ? this.#colours.ready : this.#colours.none;
      paint.beginPath();
      paint.roundRect(i * PITCH, (this.#height - height) / 2, BAR, height, BAR / 2);
      paint.fill();
    }
    if (heard > 0) {
      paint.fillStyle = this.#colours.head;
      paint.fillRect(Math.min(this.#width - 2, heard * PITCH - 1), 0, 2, this.#height);
    }
    return moves;
  }

  #approach(i, target) {
    const missing = target - this.#levels[i];
    if (this.#still.matches || Math.abs(missing) < SETTLED) {
      this.#levels[i] = target;
      return false;
    }
    this.#levels[i] += missing * EASE;
    return true;
  }

  /** Fits the whole track. While it grows, the scale changes in few steps, so that bars stay in place. */
  #secondsPerBar() {
    const bars = Math.max(1, this.#levels.length);
    if (this.track?.isComplete && this.track.length) return this.track.seconds / bars;
    let seconds = FIRST_SECONDS;
    while (this.track && this.track.seconds > seconds) seconds *= 2;
    return seconds / bars;
  }

  #measure() {
    const dots = window.devicePixelRatio || 1;
    this.#width = this.#canvas.clientWidth;
    this.#height = this.#canvas.clientHeight;
    this.#canvas.width = Math.round(this.#width * dots);
    this.#canvas.height = Math.round(this.#height * dots);
    this.#paint.setTransform(dots, 0, 0, dots, 0, 0);
    this.#levels = new Float32Array(Math.floor((this.#width + PITCH - BAR) / PITCH));
  }

  #readColours() {
    const style = getComputedStyle(this.#canvas);
    for (const name of ["heard", "ready", "none", "head"]) {
      this.#colours[name] = style.getPropertyValue(`--wave-${name}`).trim();
    }
  }
}

/** A slow wave along the bars, while no sample has come yet. */
function breath(i) {
  return 0.05 + 0.04 * Math.sin(performance.now() / 260 - i / 7);
}
