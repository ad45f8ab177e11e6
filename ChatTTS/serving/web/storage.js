/** Storage for as long as the tab is open. A browser may refuse to store anything. */

const PREFIX = "chattts.";

export function recall(name, otherwise) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Storage is full or forbidden; the page works without it.
  }
}
