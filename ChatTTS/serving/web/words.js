/** Formats numbers and names. */

const MOST_NAME = 60; // characters of a voice's name in the name of a file

/** 75.24 -> 1:15.2 */
export function clock(seconds) {
  const tenths = Math.floor(seconds * 10);
  return `${Math.floor(tenths / 600)}:${String(Math.floor(tenths / 10) % 60).padStart(2, "0")}.${tenths % 10}`;
}

/** Milliseconds -> text in milliseconds or seconds. */
export function duration(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

export function fileName(fields, format) {
  const voice = [...plain(fields.voice ?? "")].slice(0, MOST_NAME).join("");
  const parts = ["chattts", voice, plain(fields.seed ?? "")].filter((part) => part !== "");
  return `${parts.join("-")}.${format}`;
}

function plain(part) {
  return String(part).replace(/[^\p{L}\p{N}_-]+/gu, "_");
}

/** The code of a language -> its name. */
export function languageName(code) {
  return new Intl.DisplayNames("en", { type: "language" }).of(code);
}

/** A name between marks that keep its direction of writing from changing the words around it. */
export function isolated(name) {
  return `\u2068${name}\u2069`;
}

/** Download a blob as a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  // Firefox replaces an ending that is not its own for the type, such as .opus.
  link.href = URL.createObjectURL(blob.slice(0, blob.size, "application/octet-stream"));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
