/** Connects the parts of the page: text, sound and history. */

import { Server, ServerError } from "./api.js";
import { Editor } from "./editor.js";
import { Figures } from "./figures.js";
import { History } from "./history.js";
import { Keys } from "./keys.js";
import { Notices } from "./notices.js";
import { Player } from "./player.js";
import { Previews } from "./preview.js";
import { Queue } from "./queue.js";
import { Settings } from "./settings.js";
import { Speaking } from "./speaking.js";
import { Stage } from "./stage.js";
import { subtitles } from "./subtitles.js";
import { Tags } from "./tags.js";
import { Voices } from "./voices.js";
import { fileName, save } from "./words.js";

const $ = (id) => document.getElementById(id);

const server = new Server();
const keys = new Keys(server, () => voices.load());
const notices = new Notices(keys);
const previews = new Previews(server, (error, again) => notices.show(error, again));
const tags = new Tags();
const voices = new Voices(server, notices, previews, learnTags);
const settings = new Settings();
const editor = new Editor(tags);
const player = new Player();
const queue = new Queue(server, $("queue"), $("queue-text"), (isBack) => {
  editor.limit = server.longest;
  if (isBack) voices.load(); // a server that was started again may have others
});
const stage = new Stage(player, new Figures(), tags);
const history = new History({ play: replay, again: putBack, save: saveEntry }, tags);
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
  const help = "It didn't find its end. Spoken again it comes out differently.";
  const notice = new ServerError("The speech was cut off.", 0, { help });
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
    history.add({ id, fields, voiceName: voices.name(fields.voice ?? track.voice), seconds: track.seconds }, track);
  }
}

/** Stop speaking; closing the connection ends the request on the server. */
function halt() {
  previews.stop();
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
  editor.text = entry.fields.input;
  settings.put(entry.fields);
  voices.choose(entry.fields.voice ?? "");
  editor.focus();
}

async function saveEntry(entry, track) {
  if (track) save(track.wav(server.wavMark), fileName(entry.fields, "wav"));
  else await fetchAs(entry.fields, "wav");
}

/** Request the speech in another format with its seed; a whole file has its length in the header. */
async function fetchAs(fields, format) {
  notices.clear();
  try {
    const response = await server.speech({ ...fields, stream: false }, format);
    save(await response.blob(), fileName(fields, format));
  } catch (error) {
    const failure = error instanceof ServerError ? error : new ServerError("The download broke off.");
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
    save(track.wav(server.wavMark), fileName(fields, format));
    return;
  }
  button.setAttribute("aria-busy", "true");
  await fetchAs(fields, format);
  button.removeAttribute("aria-busy");
}

function request() {
  const fields = { input: editor.text, ...settings.fields };
  if (voices.asked) fields.voice = voices.asked;
  return fields;
}

function submit() {
  const fields = request();
  if (fields.input && !editor.excess) {
    speak(fields);
    return;
  }
  notices.show(fields.input ? tooLong() : new ServerError("Write a text first.", 0, { help: "Or choose an example above." }));
  editor.focus();
}

function tooLong() {
  const excess = editor.excess.toLocaleString("en");
  const help = `Shorten it by ${excess} characters, or speak it in parts. What is too much is marked.`;
  return new ServerError("The text is too long.", 0, { help });
}

async function learnTags() {
  try {
    tags.learn(await server.tags());
  } catch {
    // Without names the tags are shown as they are written.
  }
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("stop").addEventListener("click", halt);
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

previews.addEventListener("begin", () => player.pause());
player.addEventListener("change", () => player.state === "playing" && previews.stop());
queue.watch();
voices.load();
