/** Writes subtitle files. */

/**
 * @param {{start: number, end: number, lines: string[]}[]} cues in seconds.
 * @param {"srt" | "vtt"} format
 */
export function subtitles(cues, format) {
  const isVtt = format === "vtt";
  const blocks = cues.map(({ start, end, lines }, i) => {
    const times = [start, end].map((seconds) => timestamp(seconds, isVtt ? "." : ",")).join(" --> ");
    const shown = isVtt ? lines.map(escaped) : lines;
    return [...(isVtt ? [] : [i + 1]), times, ...shown].join("\n");
  });
  const text = [...(isVtt ? ["WEBVTT"] : []), ...blocks].join("\n\n");
  return new Blob([`${text}\n`], { type: isVtt ? "text/vtt" : "application/x-subrip" });
}

/** 75.24 -> 00:01:15.240 */
function timestamp(seconds, point) {
  const all = Math.round(seconds * 1000);
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const whole = [all / 3_600_000, (all / 60_000) % 60, (all / 1000) % 60].map(two).join(":");
  return `${whole}${point}${String(all % 1000).padStart(3, "0")}`;
}

/** WebVTT reads tags and entities. */
function escaped(line) {
  return line.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
