/** What went wrong, in the reader's words, and what helps. */

const AGAIN = "Try again in a moment.";

const PAUSE = ["A pause in the text can't be made.", "Write it as [pause:1.5s] or [pause:300ms]; all together take up to ten minutes."];

// By what the server's message says of a recording: the codes do not tell these apart.
const RECORDINGS = [
  [/too short/, "The recording is too short.", "Speak for at least one second; ten seconds are best."],
  [/too long|longer than/, "The recording is too long.", "Keep it to 30 seconds; ten are enough."],
  [/silent/, "The recording is silent.", "Check that the right microphone is chosen, and that it isn't muted."],
  [/cannot be read/, "This file can't be read as sound.", "Choose a wav, mp3, m4a, ogg, flac or webm file."],
];

/**
 * @param {import("./api.js").ServerError} error
 * @returns {{text: string, help: string, said: string}} `said` is the server's own message, if it adds something.
 */
export function explain(error) {
  if (!error.status) return { text: error.message, help: error.help ?? "", said: "" };
  const [text, help] = meaning(error);
  return { text, help, said: text === error.message ? "" : error.message };
}

function meaning({ status, code, param, message, retryAfter }) {
  const wait = retryAfter ? `It should be your turn in ${retryAfter} s.` : AGAIN;
  switch (code) {
    case "invalid_api_key":
      return ["This server needs a key.", "Its operator can give you one."];
    case "foreign_page":
      return ["The server doesn't accept this address of the page.", "Open the page at the address that the server's log shows."];
    case "voice_not_found":
      return ["This voice doesn't exist any more.", "Choose another voice."];
    case "request_timeout":
      return ["The upload took too long.", "Try again, or use a shorter recording."];
    case "request_too_large":
      return tooLarge(param, message);
    case "rate_limit_exceeded":
      return ["Many of your requests are still waiting.", wait];
    case "server_overloaded":
    case "deadline_exceeded":
      return ["The server is busy.", wait];
    case "shutting_down":
      return ["The server is being restarted.", AGAIN];
    case "engine_unavailable":
      return ["The server can't speak at the moment.", "If it stays so, tell its operator."];
    case "engine_failed":
      return ["That didn't work out.", "Speak it again, or change a few words of the text."];
    case "internal_error":
    case "storage_failed":
      return ["Something went wrong on the server.", "Try again. If it happens again, tell its operator."];
    default:
      return otherwise(status, param, message, wait);
  }
}

function tooLarge(param, message) {
  if (/voices are already stored/.test(message)) return ["There is no room for another voice.", "Delete one of the saved voices first."];
  if (param === "input" || /characters/.test(message)) return ["The text is too long.", "Shorten it, or speak it in parts."];
  return ["The recording is too large.", "Keep it to 30 seconds, or save it as mp3 or m4a."];
}

function otherwise(status, param, message, wait) {
  if (param === "audio_sample") {
    const found = RECORDINGS.find(([said]) => said.test(message));
    return found ? found.slice(1) : ["This recording can't be used.", "Record it again, in a quiet room."];
  }
  if (param === "name") {
    return /is a voice of this server/.test(message)
      ? ["Another voice of this server has this name.", "Choose another name."]
      : ["This can't be the name of a voice.", "Use up to 64 letters and digits, with single spaces, - or . between them."];
  }
  if (param === "input" && /pause/.test(message)) return PAUSE;
  if (param === "input") return ["There is nothing in this text that can be spoken.", "Add some words."];
  if (param === "voice" || param === "speaker") return ["This voice can't be used.", "Choose another voice or another mix."];
  if (status === 429 || status === 503) return ["The server is busy.", wait];
  if (status >= 500) return ["The server doesn't answer as it should.", AGAIN];
  return ["The server didn't accept this.", "Its answer may say why."];
}
