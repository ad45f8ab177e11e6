/** The dialog in which a voice is recorded, or chosen as a file, and saved by a name. */

import { explain } from "./errors.js";
import { MOST_SECONDS, obstacle, Recorder } from "./recorder.js";
import { clock } from "./words.js";

const $ = (id) => document.getElementById(id);
const LEAST_SECONDS = 1;
const GOOD_SECONDS = 5;
const QUIET = 0.03; // of full scale
const LOUD = 0.985;
const TO_READ =
  "The old clock in the kitchen runs a little fast. Every morning I open the window, and the whole street smells of fresh bread.";

export class NewVoice {
  #server;
  #added;
  #silence;
  #recorder = new Recorder((seconds, level) => this.#showLevel(seconds, level));
  #recording = null; // {file, seconds, loudest}
  #sending = null; // the request that is going on: it ends with the dialog
  #address = ""; // of the recording, for the player
  #transcripts = { record: TO_READ, file: "" };

  /**
   * @param {import("./api.js").Server} server
   * @param {(id: string) => void} added
   * @param {() => void} silence ends other sound, which the microphone would hear.
   */
  constructor(server, added, silence) {
    this.#server = server;
    this.#added = added;
    this.#silence = silence;
    $("voice-add").addEventListener("click", () => this.#open());
    $("voice-cancel").addEventListener("click", () => $("voice-dialog").close());
    $("voice-dialog").addEventListener("close", () => this.#forget());
    $("record").addEventListener("click", () => this.#toggle());
    for (const choice of [$("voice-record"), $("voice-file")]) choice.addEventListener("change", () => this.#showSource());
    $("voice-text").addEventListener("input", () => {
      this.#transcripts[this.#source] = $("voice-text").value;
    });
    $("voice-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
  }

  get #source() {
    return $("voice-record").checked ? "record" : "file";
  }

  #open() {
    this.#tell("");
    $("voice-dialog").showModal();
    const reason = obstacle();
    $("voice-record").checked = !reason;
    $("voice-file").checked = Boolean(reason);
    this.#showSource();
    this.#showRecording();
  }

  #showSource() {
    const isRecord = this.#source === "record";
    const reason = obstacle();
    if (!isRecord) this.#recorder.cancel();
    $("record-panel").hidden = !isRecord;
    $("record-reason").textContent = reason;
    $("record-controls").hidden = Boolean(reason);
    $("file-panel").hidden = isRecord;
    $("voice-sample").required = !isRecord;
    $("voice-text-label").textContent = isRecord ? "Read this aloud, word for word" : "What it says, word for word";
    $("voice-text").value = this.#transcripts[this.#source];
    this.#tell("");
    this.#showRecording();
  }

  async #toggle() {
    if (this.#recorder.isOn) {
      await this.#end();
      return;
    }
    this.#silence();
    this.#tell("");
    this.#take(null);
    $("record").disabled = true;
    try {
      await this.#recorder.start(() => this.#end());
    } catch (error) {
      this.#tell(error.message);
    }
    $("record").disabled = false;
    this.#showRecording();
  }

  async #end() {
    const recording = await this.#recorder.stop();
    if (recording) this.#take(recording);
    this.#showRecording();
  }

  #take(recording) {
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.#recording = recording;
    this.#address = recording ? URL.createObjectURL(recording.file) : "";
    if (recording) $("record-sound").src = this.#address;
    else $("record-sound").removeAttribute("src");
  }

  #showRecording() {
    const { isOn } = this.#recorder;
    const name = isOn ? "Stop" : this.#recording ? "Record again" : "Record";
    $("record").dataset.state = isOn ? "on" : "off";
    $("record-name").textContent = name;
    $("record-icon").setAttribute("href", isOn ? "#icon-stop" : "#icon-microphone");
    $("record-sound").hidden = isOn || !this.#recording;
    $("record-level").hidden = !isOn;
    $("record-advice").textContent = isOn ? "" : this.#recording ? advice(this.#recording) : "Ten seconds in a quiet room are best.";
    this.#showLevel(isOn ? 0 : (this.#recording?.seconds ?? 0), 0);
    $("voice-text").readOnly = isOn;
  }

  #showLevel(seconds, level) {
    $("record-time").textContent = `${clock(seconds)} of ${clock(MOST_SECONDS)}`;
    $("record-level").style.setProperty("--level", Math.min(1, Math.sqrt(level)).toFixed(3));
    $("record-level").dataset.state = level > LOUD ? "loud" : "fine";
  }

  #tell(text) {
    $("voice-error").textContent = text;
  }

  async #send() {
    if (this.#recorder.isOn) await this.#end();
    const isRecord = this.#source === "record";
    if (isRecord && !this.#recording) return this.#tell("Record something first, or choose a file.");
    if (isRecord && this.#recording.seconds < LEAST_SECONDS) return this.#tell("The recording is too short. Record it again.");
    const form = new FormData($("voice-form"));
    form.delete("source");
    form.set("name", $("voice-name").value.trim());
    if (isRecord) form.set("audio_sample", this.#recording.file, this.#recording.file.name);
    const sending = new AbortController();
    this.#sending = sending;
    $("voice-send").disabled = true;
    $("voice-send").setAttribute("aria-busy", "true");
    this.#tell("");
    try {
      await this.#server.addVoice(form, sending.signal);
    } catch (error) {
      if (sending.signal.aborted) return;
      const { text, help } = explain(error);
      this.#tell(`${text} ${help}`);
      return;
    } finally {
      $("voice-send").disabled = false;
      $("voice-send").removeAttribute("aria-busy");
    }
    this.#transcripts = { record: TO_READ, file: "" };
    $("voice-form").reset();
    $("voice-dialog").close();
    this.#added(form.get("name"));
  }

  #forget() {
    this.#sending?.abort();
    this.#recorder.cancel();
    this.#take(null);
  }
}

function advice({ seconds, loudest }) {
  if (loudest < QUIET) return "That is very quiet. Come closer, or choose another microphone.";
  if (loudest > LOUD) return "That is too loud. Move back a little, and record again.";
  if (seconds < GOOD_SECONDS) return "That is short. Ten seconds give a better voice.";
  return "That sounds good. Listen to it, and check the text above.";
}
