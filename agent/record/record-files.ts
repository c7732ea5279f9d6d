import { type FileHandle, open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Config } from '../../apis/config.ts';

/** The file that the agent writes records to; null: its standard output. */
export function recordsFile(stateDir: string, { log: { file } }: Pick<Config, 'log'>): string | null {
  if (file === 'stdout') return null;
  return file === '' ? join(stateDir, 'records.jsonl') : file;
}

/** Milliseconds between two looks at a followed file. */
const INTERVAL = 200;
const CHUNK = 256 * 1024;
/**
 * Limit of a line, in characters; no record is as long. The part of a longer line that was read is
 * dropped.
 */
const MAX_LINE = 1024 * 1024;

/**
 * The lines of a flow log and of its rotated files (rotating-file.ts), oldest first. Yields null
 * when all existing lines have been read; with `follow` it goes on after that, across rotations,
 * until `signal` aborts. Throws if a file cannot be read; a file that does not exist has no lines
 * yet.
 */
export async function* recordLines(
  path: string,
  { follow, signal }: { readonly follow: boolean; readonly signal?: AbortSignal },
): AsyncGenerator<string | null> {
  let current: Source | null = null;
  try {
    for (;;) {
      for (const source of await sourcesAfter(path, current)) {
        await current?.file.close();
        current = source;
        yield* readOn(source);
      }
      if (signal === undefined || !signal.aborted) yield null;
      for (;;) {
        if (!follow || signal?.aborted) return;
        await pause(INTERVAL, undefined, { ref: true });
        if (current !== null) yield* readOn(current);
        const found = await stat(path).catch(() => null);
        if (found !== null && found.ino !== current?.inode) break;
        // The file was truncated.
        if (found !== null && current !== null && found.size < current.position) current.position = 0;
      }
      // Lines that were written before the file was rotated.
      if (current !== null) yield* readOn(current);
    }
  } finally {
    await current?.file.close();
  }
}

interface Source {
  readonly file: FileHandle;
  readonly inode: number;
  position: number;
  /** The start of an incomplete line. */
  rest: string;
}

/** Opens the newest file first: a rotation meanwhile makes a file appear twice, but hides none. */
async function sourcesAfter(path: string, last: Source | null): Promise<Source[]> {
  const found: Source[] = [];
  for (let number = 0; ; number++) {
    const source = await openSource(number === 0 ? path : `${path}.${number}`);
    const isLast = source === null || source.inode === last?.inode;
    if (source !== null && (isLast || found.some(({ inode }) => inode === source.inode))) {
      await source.file.close();
    } else if (source !== null) found.push(source);
    // Between two renames of a rotation, the newest name may not exist.
    if (isLast && (source !== null || number > 0)) return found.reverse();
  }
}

async function openSource(path: string): Promise<Source | null> {
  try {
    const file = await open(path, 'r');
    return { file, inode: (await file.stat()).ino, position: 0, rest: '' };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Yields the complete lines up to the current end. */
async function* readOn(source: Source): AsyncGenerator<string> {
  const buffer = Buffer.alloc(CHUNK);
  for (;;) {
    const { bytesRead } = await source.file.read(buffer, 0, CHUNK, source.position);
    if (bytesRead === 0) return;
    // Decode up to the last newline, so that no character is split.
    const end = buffer.subarray(0, bytesRead).lastIndexOf(10) + 1;
    if (end === 0 && bytesRead < CHUNK) return;
    const taken = end === 0 ? bytesRead : end;
    source.position += taken;
    const lines = (source.rest + buffer.toString('utf8', 0, taken)).split('\n');
    source.rest = lines.pop() ?? '';
    if (source.rest.length > MAX_LINE) source.rest = '';
    for (const line of lines) if (line !== '') yield line;
  }
}
