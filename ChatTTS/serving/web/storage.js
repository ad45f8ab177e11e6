/** Storage for as long as the tab is open. A browser may refuse to store anything: then until a reload. */

const PREFIX = "chattts.";
const said = new Map(); // this tab alone writes, so what it wrote last is true

export function recall(name, otherwise) {
  if (said.has(name)) return said.get(name) ?? otherwise;
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  said.set(name, value);
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Storage is full or forbidden.
  }
}
