/** Plays samples in the audio thread as they come. One processor plays one run from one position. */

const QUANTA_PER_REPORT = 8;

class Speech extends AudioWorkletProcessor {
  #queue = [];
  #offset = 0; // into the first chunk of the queue
  #buffered = 0;
  #position; // of the next sample in the whole speech
  #needed; // samples that must be buffered before playback starts or resumes
  #again;
  #gain = 0;
  #isPlaying = false;
  #isFinished = false;
  #isLeaving = false;
  #underruns = 0;
  #quanta = 0;

  constructor({ processorOptions }) {
    super();
    this.#position = processorOptions.position;
    this.#needed = processorOptions.first;
    this.#again = processorOptions.again;
    this.port.onmessage = ({ data }) => {
      if (data === "finish") this.#isFinished = true;
      else if (data === "leave") this.#isLeaving = true;
      else if (data.length) {
        this.#queue.push(data);
        this.#buffered += data.length;
      }
    };
  }

  process(_inputs, [[out]]) {
    const wasPlaying = this.#isPlaying;
    // One quantum is held back: at an underrun it is faded out, and played again later.
    const least = wasPlaying ? 2 * out.length : this.#needed;
    this.#isPlaying = !this.#isLeaving && (this.#isFinished || this.#buffered >= least);
    if (wasPlaying && !this.#isPlaying && !this.#isLeaving) {
      this.#underruns += 1;
      this.#needed = this.#again;
    }
    this.#fill(out, this.#gain, this.#isPlaying ? 1 : 0);
    const isOver = this.#isLeaving || (this.#isFinished && this.#buffered === 0);
    if (isOver || wasPlaying !== this.#isPlaying || ++this.#quanta % QUANTA_PER_REPORT === 0) {
      this.port.postMessage({
        position: this.#position,
        time: currentTime,
        isPlaying: this.#isPlaying && !isOver,
        isOver,
        underruns: this.#underruns,
      });
    }
    return !isOver;
  }

  /** Ramps last one quantum, so that starts and ends do not click. */
  #fill(out, from, to) {
    this.#gain = to;
    if (from === 0 && to === 0) return;
    const step = (to - from) / out.length;
    let [item, offset] = [0, this.#offset];
    let i = 0;
    for (; i < out.length && item < this.#queue.length; i++) {
      out[i] = this.#queue[item][offset] * (from + step * i);
      if (++offset === this.#queue[item].length) [item, offset] = [item + 1, 0];
    }
    if (to === 0) return; // faded out: these samples do not count as played
    this.#queue.splice(0, item);
    this.#offset = offset;
    this.#buffered -= i;
    this.#position += i;
  }
}

registerProcessor("speech", Speech);
