/** Characters of a line: an endless one would fill the memory. A whole Overview has about 2 MB. */
const LONGEST = 64 << 20;

/**
 * The lines of a stream, without their line feeds. Ends with the stream; what follows the last line
 * feed is dropped, as it was cut off. Throws where a line is longer than `longest` characters, or
 * not UTF-8.
 */
export async function* linesOf(
  stream: ReadableStream<Uint8Array>,
  longest = LONGEST,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let parts: string[] = [];
  let length = 0;
  for await (const chunk of stream) {
    const [first = '', ...lines] = decoder.decode(chunk, { stream: true }).split('\n');
    parts.push(first);
    length += first.length;
    if (length > longest) throw new Error(`a line is longer than ${longest} characters`);
    for (const line of lines) {
      yield parts.join('');
      parts = [line];
      length = line.length;
    }
  }
}
