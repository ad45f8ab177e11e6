/** Formats numbers and file names. */

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
  const parts = ["chattts", fields.voice, fields.seed].filter((part) => part !== undefined && part !== "");
  return `${parts.join("-").replace(/[^\p{L}\p{N}_-]+/gu, "_")}.${format}`;
}

/** Download a blob as a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
