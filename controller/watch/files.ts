import { isUtf8 } from 'node:buffer';
import type { Dirent } from 'node:fs';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { STANDARD_INPUT } from '../../apis/validate/problem.ts';
import { readBody } from '../../lib/process/body.ts';
import { systemReason } from '../../lib/process/option-value.ts';

export interface FileList {
  /** Paths of the manifest files, sorted; a file that is reached twice is listed once. */
  readonly files: readonly string[];
  /** Directories and paths that could not be read. */
  readonly unreadable: readonly { readonly path: string; readonly reason: string }[];
  /**
   * The searched directories, by the paths under which they were reached. `id` changes if another
   * directory takes the path.
   */
  readonly directories: readonly { readonly path: string; readonly id: string }[];
  /** Real paths of the targets of symbolic links. */
  readonly links: readonly string[];
}

/**
 * Whether a file in a manifests directory is read: hidden files and editors' temporary files are
 * not.
 */
export function isManifestName(name: string): boolean {
  return !name.startsWith('.') && /\.(ya?ml|json)$/i.test(name);
}

/**
 * The manifest files under the paths. Directories are searched recursively, also through symbolic
 * links. Names that start with a dot are skipped, so the `..data` directories of a ConfigMap mount
 * are reached only through the links beside them.
 */
export async function listFiles(paths: readonly string[]): Promise<FileList> {
  const walk: Walk = { files: new Map(), seen: new Set(), unreadable: [], directories: [], links: [] };
  for (const path of paths) await visit(path, true, walk);
  const { unreadable, directories, links } = walk;
  return { files: [...walk.files.values()].sort(), unreadable, directories, links };
}

interface Walk {
  /** From a file's real path to the path under which it was found. */
  readonly files: Map<string, string>;
  /** Real paths of the searched directories. */
  readonly seen: Set<string>;
  readonly unreadable: { path: string; reason: string }[];
  readonly directories: { path: string; id: string }[];
  readonly links: string[];
}

async function visit(path: string, named: boolean, walk: Walk): Promise<void> {
  try {
    const real = await realpath(path);
    const info = await stat(real);
    if (real !== path) walk.links.push(real);
    if (info.isDirectory()) await search(path, real, walk);
    else if (info.isFile()) {
      if (named || isManifestName(path)) add(path, real, walk);
    } else if (named || isManifestName(path))
      walk.unreadable.push({ path, reason: 'is neither a file nor a directory' });
  } catch (error) {
    walk.unreadable.push({ path, reason: `can't be read: ${systemReason(error)}` });
  }
}

/** The directory entry has the type, so that 1,000 files need no stat(2) each. */
async function search(path: string, real: string, walk: Walk): Promise<void> {
  if (walk.seen.has(real)) return;
  walk.seen.add(real);
  try {
    const { dev, ino } = await stat(real);
    const entries = await readdir(real, { withFileTypes: true });
    walk.directories.push({ path, id: `${dev}:${ino}` });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!isCandidate(entry)) continue;
      const [at, realAt] = [join(path, entry.name), join(real, entry.name)];
      if (entry.isDirectory()) await search(at, realAt, walk);
      else if (entry.isFile()) add(at, realAt, walk);
      else await visit(at, false, walk);
    }
  } catch (error) {
    walk.unreadable.push({ path, reason: `can't be read: ${systemReason(error)}` });
  }
}

function add(path: string, real: string, { files }: Walk): void {
  if (!files.has(real)) files.set(real, path);
}

function isCandidate(entry: Dirent): boolean {
  if (entry.name.startsWith('.')) return false;
  return entry.isDirectory() || entry.isSymbolicLink() || isManifestName(entry.name);
}

/** Larger files are refused, because they would not fit into an agent's memory. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

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

/** Throws if it has more than a file may have, or nothing, as behind a command that failed. */
async function readStandardInput(): Promise<Buffer> {
  const bytes = await readBody(process.stdin, MAX_FILE_BYTES);
  if (bytes === null) throw new Error(`it has more than ${MAX_FILE_BYTES} bytes (64 MiB)`);
  if (bytes.length === 0) throw new Error('it is empty; see whether the command before it failed');
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
