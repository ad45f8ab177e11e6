/** Connects the parts of the page: text, sound and history. */

import { Server, ServerError } from "./api.js";
import { History } from "./history.js";
import { Notices } from "./notices.js";
import { Player } from "./player.js";
import { Queue } from "./queue.js";
import { Settings } from "./settings.js";
import { Speaking } from "./speaking.js";
import { Stage } from "./stage.js";
import { subtitles } from "./subtitles.js";
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
let current = null; // the Speaking that is running, or whose sound is shown

/** Request speech; `entry` is a history entry whose sound is generated again. */
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

/** Report speech that was cut off, and offer another seed. */
function tellCut(fields) {
  const notice = new ServerError("The speech was too long and was cut off. Another seed may help.");
  notices.show(notice, () => speak({ ...fields, seed: undefined }));
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

/** Stop speaking; closing the connection ends the request on the server. */
function halt() {
  current?.abort();
  player.stop();
}

function replay(entry, track) {
  if (!track) {
    speak(entry.fields, entry); // with an equal seed: equal speech
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

/** Request the speech in another format with its seed; a whole file has its length in the header. */
async function fetchAs(fields, format) {
  notices.clear();
  try {
    const response = await server.speech({ ...fields, stream: false }, format);
    save(await response.blob(), fileName(fields, format));
  } catch (error) {
    const failure = error instanceof ServerError ? error : new ServerError(`The download failed: ${error.message}.`);
    notices.show(failure, () => fetchAs(fields, format));
  }
}

async function saveCurrent(button) {
  const { format, subtitles: kind } = button.dataset;
  const { fields, track } = current;
  if (kind) {
    save(subtitles(track.cues, kind), fileName(fields, kind));
    return;
  }
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
    notices.show(new ServerError("Type a text first, or choose an example."));
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
  const button = target.closest("[data-format], [data-subtitles]");
  if (button && !button.hasAttribute("aria-busy")) saveCurrent(button);
});
document.addEventListener("keydown", (event) => {
  if (event.isComposing || document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    submit();
  } else if (event.key === "Escape") halt();
});
// Stop the request when the page is left. A browser may keep the page and show it again later.
window.addEventListener("pagehide", halt);

count();
load();
