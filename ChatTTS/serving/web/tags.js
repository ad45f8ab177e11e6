/** Control tags such as [laugh], by names that a reader understands. */

const TAG = /\[(?:\w+|pause:\s*\d+(?:\.\d+)?\s*m?s)\]/g;
const PAUSE = /^\[pause:\s*(\d+(?:\.\d+)?)\s*(m?s)\]$/;
const LEVEL = /^\[(speed|oral|laugh|break)_(\d)\]$/;

const NAMES = {
  "[uv_break]": "short pause",
  "[v_break]": "short pause",
  "[lbreak]": "long pause",
  "[llbreak]": "longer pause",
  "[laugh]": "laughter",
  "[music]": "music",
  "[pure]": "clean speech",
  "[undefine]": "other sound",
};
// Of each kind of level its name and its highest step.
const LEVELS = {
  speed: ["pace", 9],
  oral: ["casual", 9],
  laugh: ["laughter", 2],
  break: ["pauses", 7],
};

/** The name of a tag; an empty string for one that no voice knows. */
export function tagName(tag) {
  const pause = PAUSE.exec(tag);
  if (pause) return `silence, ${Number(pause[1]).toLocaleString("en")} ${pause[2]}`;
  const level = LEVEL.exec(tag);
  if (!level) return Object.hasOwn(NAMES, tag) ? NAMES[tag] : "";
  const [name, most] = LEVELS[level[1]];
  return Number(level[2]) <= most ? `${name} ${level[2]} of ${most}` : "";
}

/**
 * Split a text into plain pieces and tags, in order.
 * @param {string} text
 * @returns {{text: string, isTag: boolean}[]}
 */
export function split(text) {
  const pieces = [];
  let done = 0;
  for (const { 0: tag, index } of text.matchAll(TAG)) {
    if (index > done) pieces.push({ text: text.slice(done, index), isTag: false });
    pieces.push({ text: tag, isTag: true });
    done = index + tag.length;
  }
  if (done < text.length) pieces.push({ text: text.slice(done), isTag: false });
  return pieces;
}

/** A small label with the name of a tag; one without a name shows the tag itself. */
export function tagChip(tag) {
  const chip = document.createElement("span");
  const name = tagName(tag);
  chip.className = name ? "tag-chip" : "tag-chip unknown";
  chip.textContent = name || tag;
  chip.title = tag;
  return chip;
}

/** Nodes that show a text with the names of its tags. */
export function withNames(text) {
  return split(text).map((piece) => (piece.isTag ? tagChip(piece.text) : document.createTextNode(piece.text)));
}
