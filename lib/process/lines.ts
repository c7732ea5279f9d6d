/**
 * Splits chunks of bytes into lines, wherever the chunks are cut. Returns the function that takes
 * the next chunk. It throws if a line is longer than `longest` bytes: an endless line would fill
 * the memory.
 */
export function lines(longest: number, take: (line: string) => void): (piece: Buffer) => void {
  let parts: Buffer[] = [];
  let length = 0;
  return (piece) => {
    let start = 0;
    for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, start)) {
      const rest = piece.subarray(start, end);
      start = end + 1;
      const line = parts.length === 0 ? rest : Buffer.concat([...parts, rest]);
      parts = [];
      length = 0;
      if (line.length > longest) throw tooLong(longest);
      take(line.toString('utf8'));
    }
    if (start === piece.length) return;
    parts.push(piece.subarray(start));
    length += piece.length - start;
    if (length > longest) throw tooLong(longest);
  };
}

function tooLong(longest: number): Error {
  return new Error(`a line of more than ${longest} bytes`);
}
