import { type FileHandle, open, stat } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

/** How often a followed file is looked at (milliseconds). */
const INTERVAL = 200;
const CHUNK = 256 * 1024;
/** No record is as long; what is, is handed over in pieces. */
const MAX_LINE = 1024 * 1024;

/**
 * The lines of a record and of its rotated files (see rotating-file.ts), oldest first. Null comes
 * when all that is there has been read; a followed record goes on then, over rotations, until
 * `signal`. Throws where the file can't be read; a file that isn't there has no lines yet.
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
        // Somebody emptied it.
        if (found !== null && current !== null && found.size < current.position) current.position = 0;
      }
      // What was written before it was moved away.
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
  /** Of a line that isn't complete yet. */
  rest: string;
}

/** Newest first while they are opened: a rotation meanwhile shows a file twice, but hides none. */
async function sourcesAfter(path: string, last: Source | null): Promise<Source[]> {
  const found: Source[] = [];
  for (let number = 0; ; number++) {
    const source = await openSource(number === 0 ? path : `${path}.${number}`);
    const isLast = source === null || source.inode === last?.inode;
    if (source !== null && (isLast || found.some(({ inode }) => inode === source.inode))) {
      await source.file.close();
    } else if (source !== null) found.push(source);
    // Between two renames of a rotation the newest name may be free.
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

/** The complete lines there are now. */
async function* readOn(source: Source): AsyncGenerator<string> {
  const buffer = Buffer.alloc(CHUNK);
  for (;;) {
    const { bytesRead } = await source.file.read(buffer, 0, CHUNK, source.position);
    if (bytesRead === 0) return;
    // Up to the last newline: no character is cut in two.
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
