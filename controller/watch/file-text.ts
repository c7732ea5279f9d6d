import { isUtf8 } from 'node:buffer';
import { readFile, stat } from 'node:fs/promises';
import { readBody } from '../../lib/process/body.ts';
import { systemReason } from '../../lib/process/option-value.ts';

/** Larger files are refused, because they would not fit into an agent's memory. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** Stands for standard input in place of a path. */
export const STANDARD_INPUT = '-';

export type FileBytes =
  | { readonly bytes: Buffer }
  | { readonly reason: string; readonly line: number; readonly unreadable: boolean };

/** The bytes of a text file without its byte order mark, or the reason why there are none. */
export async function readFileBytes(path: string): Promise<FileBytes> {
  let bytes: Buffer;
  try {
    if (path === STANDARD_INPUT) return checkBytes(await readStandardInput());
    const { size } = await stat(path);
    if (size > MAX_FILE_BYTES) {
      const reason = `has ${size} bytes, more than ${MAX_FILE_BYTES} (64 MiB); split it`;
      return { reason, line: 0, unreadable: false };
    }
    bytes = await readFile(path);
  } catch (error) {
    return { reason: `can't be read: ${systemReason(error)}`, line: 0, unreadable: true };
  }
  return checkBytes(bytes);
}

/** Throws if it has more than a file may have. */
async function readStandardInput(): Promise<Buffer> {
  const bytes = await readBody(process.stdin, MAX_FILE_BYTES);
  if (bytes === null) throw new Error(`it has more than ${MAX_FILE_BYTES} bytes (64 MiB)`);
  return bytes;
}

/**
 * Releases a file's memory at once if it isn't shared: the garbage collector only counts its own
 * heap, and would leave 25 MB of pods allocated for seconds. The bytes must not be used again.
 */
export function release(read: FileBytes): void {
  if (!('bytes' in read)) return;
  const { buffer, byteLength } = read.bytes;
  if (buffer instanceof ArrayBuffer && buffer.byteLength <= byteLength + 3) buffer.transfer(0);
}

/** Accepts bytes that are UTF-8 without NUL; otherwise returns the reason. */
export function checkBytes(bytes: Buffer): FileBytes {
  if (!isUtf8(bytes)) return { reason: encodingReason(bytes), line: 0, unreadable: false };
  const nul = bytes.indexOf(0);
  if (nul >= 0) {
    return { reason: 'has a NUL byte; it is not text', line: lineAt(bytes, nul), unreadable: false };
  }
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return { bytes: hasMark ? bytes.subarray(3) : bytes };
}

function encodingReason(bytes: Buffer): string {
  const isUtf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  return isUtf16 ? 'is UTF-16; save it as UTF-8' : 'is not UTF-8; save it as UTF-8';
}

/** The 1-based line of a byte offset. */
function lineAt(bytes: Uint8Array, offset: number): number {
  let line = 1;
  for (let at = bytes.indexOf(10); at >= 0 && at < offset; at = bytes.indexOf(10, at + 1)) line++;
  return line;
}
