/** Puts the page together: the text, the sound, the history. */

import { Server, ServerError } from "./api.js";
import { History } from "./history.js";
import { Notices } from "./notices.js";
import { Player } from "./player.js";
import { Queue } from "./queue.js";
import { Settings } from "./settings.js";
import { Speaking } from "./speaking.js";
import { Stage } from "./stage.js";
import { Voices } from "./voices.js";
import { fileName, save } from "./words.js";

const $ = (id) => document.getElementById(id);

const server = new Server();
const notices = new Notices(server, () => load());
const voices = new Voices(server, notices);
const settings = new Settings();
const player = new Player();
const queue = new Queue(server, $("queue"), $("queue-text"));
const stage = new Stage(player);
const history = new History({ play: replay, again: putBack, save: saveEntry });
let current = null; // the Speaking that is going on, or whose sound is on the stage

/** Let the server speak; `entry` is one of the history whose sound is made again. */
async function speak(fields, entry = null) {
  halt();
  notices.clear();
  const speaking = new Speaking(fields);
  current = speaking;
  stage.expect(speaking);
  player.unlock();
  try {
    await speaking.run(server, begun, grown);
    if (speaking.finishReason === "length" && current === speaking) tellCut(fields);
  } catch (error) {
    if (current === speaking) notices.show(error, () => speak(fields, entry));
  }
  if (speaking.track?.length) record(speaking, entry);
  if (current === speaking) stage.finish(speaking);
}

/** The speech was cut: another seed speaks otherwise. */
function tellCut(fields) {
  const told = new ServerError("The voice found no end, and its speech was cut.");
  notices.show(told, () => speak({ ...fields, seed: undefined }));
}

function begun(speaking) {
  if (current === speaking) player.play(speaking.track);
}

function grown(speaking) {
  if (current !== speaking) return;
  player.grew();
  stage.grow(speaking);
}

function record({ fields, track }, entry) {
  if (entry) history.renew(entry.id, track);
  else {
    const id = `${Date.now()}-${track.length}`;
    history.add({ id, fields, voiceName: voices.name(fields.voice ?? ""), seconds: track.seconds }, track);
  }
}

/** End what is going on; the server's request ends with its connection. */
function halt() {
  current?.abort();
  player.stop();
}

function replay(entry, track) {
  if (!track) {
    speak(entry.fields, entry); // the same seed: the same speech
    return;
  }
  halt();
  notices.clear();
  current = new Speaking(entry.fields);
  current.track = track;
  stage.expect(current);
  player.unlock();
  player.play(track);
  stage.finish(current);
}

function putBack(entry) {
  $("text").value = entry.fields.input;
  settings.put(entry.fields);
  voices.choose(entry.fields.voice ?? "");
  count();
  $("text").focus();
}

async function saveEntry(entry, track) {
  if (track) save(track.wav(), fileName(entry.fields, "wav"));
  else await fetchAs(entry.fields, "wav");
}

/** Another format is made by the server, from the same seed; a whole file tells its length. */
async function fetchAs(fields, format) {
  notices.clear();
  try {
    const response = await server.speech({ ...fields, stream: false }, format);
    save(await response.blob(), fileName(fields, format));
  } catch (error) {
    const told = error instanceof ServerError ? error : new ServerError(`The download broke: ${error.message}.`);
    notices.show(told, () => fetchAs(fields, format));
  }
}

async function saveCurrent(button) {
  const { format } = button.dataset;
  const { fields, track } = current;
  if (format === "wav") {
    save(track.wav(), fileName(fields, format));
    return;
  }
  button.setAttribute("aria-busy", "true");
  await fetchAs(fields, format);
  button.removeAttribute("aria-busy");
}

function request() {
  const fields = { input: $("text").value.trim(), ...settings.fields };
  if (voices.chosen) fields.voice = voices.chosen;
  return fields;
}

function submit() {
  const fields = request();
  if (fields.input) speak(fields);
  else {
    notices.show(new ServerError("Type a text first, or take an example."));
    $("text").focus();
  }
}

function insert(tag) {
  const text = $("text");
  const [from, to] = [text.selectionStart, text.selectionEnd];
  const before = text.value.slice(0, from);
  const gap = before && !/\s$/.test(before) ? " " : "";
  text.setRangeText(`${gap}${tag} `, from, to, "end");
  text.focus();
  count();
}

function count() {
  const { length } = [...$("text").value];
  $("count").textContent = length === 1 ? "1 character" : `${length.toLocaleString("en")} characters`;
}

function load() {
  queue.watch();
  voices.load();
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("stop").addEventListener("click", halt);
$("text").addEventListener("input", count);
for (const button of document.querySelectorAll("[data-tag]")) {
  button.addEventListener("click", () => insert(button.dataset.tag));
}
for (const button of document.querySelectorAll("[data-example]")) {
  button.addEventListener("click", () => {
    $("text").value = button.dataset.example;
    count();
  });
}
$("saves").addEventListener("click", ({ target }) => {
  const button = target.closest("[data-format]");
  if (button && !button.hasAttribute("aria-busy")) saveCurrent(button);
});
document.addEventListener("keydown", (event) => {
  if (event.isComposing || document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    submit();
  } else if (event.key === "Escape") halt();
});
// A page that goes away lets go of the server at once; a browser may keep it and come back.
window.addEventListener("pagehide", halt);

count();
load();
