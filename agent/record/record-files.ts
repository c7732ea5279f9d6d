import { type FileHandle, open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Config } from '../../apis/config.ts';
import { ifAbsent } from '../../lib/process/state-file.ts';
import { matches, type ParsedRecord, type RecordFilter } from './record-filter.ts';

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
 * The lines of a flow log and of its rotated files (writer.ts), oldest first. Yields null
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
  const file = await open(path, 'r').catch(ifAbsent);
  return file && { file, inode: (await file.stat()).ino, position: 0, rest: '' };
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

interface LastRecords {
  /** JSON, oldest first. */
  readonly lines: readonly string[];
  /** Whether the look back ended before the oldest record. */
  readonly isCut: boolean;
}

interface Looked {
  readonly filter: RecordFilter;
  readonly most: number;
  /** Bytes that are read at most. */
  readonly bytes: number;
}

const CHUNK_BACK = 64 * 1024;
const NEWLINE = 10;

/**
 * The last records that match, of a flow log and its rotated files (writer.ts), read from
 * the end. A file that does not exist has none. Throws if one cannot be read.
 */
export async function lastRecords(path: string, { filter, most, bytes }: Looked): Promise<LastRecords> {
  const found: string[] = [];
  const budget = { bytes };
  for (let number = 0; ; number++) {
    const file = await open(number === 0 ? path : `${path}.${number}`, 'r').catch(ifAbsent);
    // Between two renames of a rotation, the newest name may not exist.
    if (file === null && number === 0) continue;
    if (file === null) return { lines: found.reverse(), isCut: false };
    try {
      for await (const line of linesFromEnd(file, budget)) {
        const record = toRecord(line);
        // Records are in the order of their times: what comes before is older.
        if (record !== null && isBefore(record, filter)) return { lines: found.reverse(), isCut: false };
        if (record === null || !matches(record, filter)) continue;
        if (found.length === most) return { lines: found.reverse(), isCut: true };
        found.push(line);
      }
    } finally {
      await file.close();
    }
    if (budget.bytes <= 0) return { lines: found.reverse(), isCut: true };
  }
}

function isBefore({ time }: ParsedRecord, { since }: RecordFilter): boolean {
  return since !== undefined && Date.parse(String(time)) < since;
}

/** Complete lines, the last first; stops where the budget ends. */
async function* linesFromEnd(file: FileHandle, budget: { bytes: number }): AsyncGenerator<string> {
  /** The part of a line that was read without its beginning. */
  let rest: Buffer = Buffer.alloc(0);
  let isEnd = true;
  for (let at = (await file.stat()).size; at > 0 && budget.bytes > 0; ) {
    const length = Math.min(CHUNK_BACK, at, budget.bytes);
    at -= length;
    budget.bytes -= length;
    const chunk = Buffer.alloc(length);
    const { bytesRead } = await file.read(chunk, 0, length, at);
    let text = Buffer.concat([chunk.subarray(0, bytesRead), rest]);
    // The text after the last newline of the file is not complete yet.
    if (isEnd) {
      const last = text.lastIndexOf(NEWLINE);
      if (last === -1) continue;
      text = text.subarray(0, last);
      isEnd = false;
    }
    for (let cut = text.lastIndexOf(NEWLINE); cut !== -1; cut = text.lastIndexOf(NEWLINE)) {
      yield text.toString('utf8', cut + 1);
      text = text.subarray(0, cut);
    }
    rest = text;
    if (at === 0) yield rest.toString();
  }
}

/** Null: half a line after a crash, or a line of another program. */
export function toRecord(line: string): ParsedRecord | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && 'time' in value && 'node' in value ? value : null;
  } catch {
    return null;
  }
}
