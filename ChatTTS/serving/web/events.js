/** Read server-sent events from the body of a response. */

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<object>} the JSON data of each event.
 */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      if (block.startsWith("data: ")) yield JSON.parse(block.slice("data: ".length));
    }
  }
}

/** @param {string} base64 */
export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
