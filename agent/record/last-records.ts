import { type FileHandle, open } from 'node:fs/promises';
import { matches, type ParsedRecord, type RecordFilter } from './record-filter.ts';

export interface LastRecords {
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

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/**
 * The last records that match, of a flow log and its rotated files (rotating-file.ts), read from
 * the end. A file that does not exist has none. Throws if one cannot be read.
 */
export async function lastRecords(path: string, { filter, most, bytes }: Looked): Promise<LastRecords> {
  const found: string[] = [];
  const budget = { bytes };
  for (let number = 0; ; number++) {
    const file = await openFile(number === 0 ? path : `${path}.${number}`);
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

async function openFile(path: string): Promise<FileHandle | null> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Complete lines, the last first; stops where the budget ends. */
async function* linesFromEnd(file: FileHandle, budget: { bytes: number }): AsyncGenerator<string> {
  /** The part of a line that was read without its beginning. */
  let rest: Buffer = Buffer.alloc(0);
  let isEnd = true;
  for (let at = (await file.stat()).size; at > 0 && budget.bytes > 0; ) {
    const length = Math.min(CHUNK, at, budget.bytes);
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
