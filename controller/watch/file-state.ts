import { hash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { ValidateOptions } from '../../apis/validate/object.ts';
import type { FileContent } from './content.ts';
import { type FileList, readFileBytes, release } from './files.ts';
import { keepObjects } from './keep-objects.ts';
import { isUnder } from './last-valid-versions.ts';
import { NO_CACHE, parseManifest } from './read-file.ts';
import type { DocumentCache } from './yaml-file.ts';

/** The state of one file. */
interface FileState {
  /** Identifies the version of the file that was read; '' if it must be read again. */
  readonly stamp: string;
  /** A digest of its bytes, or the reason why there are none. */
  readonly digest: string;
  /** The content used: for a broken file, its last content that was not broken. */
  readonly content: FileContent;
  /** The last content that was not broken. */
  readonly good: FileContent | null;
  readonly cache: DocumentCache;
}

export type FileStates = Map<string, FileState>;

/**
 * A file written less than this many milliseconds ago may be written again without a change of its
 * time stamp.
 */
const FRESH = 100;

/**
 * Reads the files that are new or changed, and removes those that are gone; returns true if there
 * were any.
 */
export async function readChanged(
  states: FileStates,
  { files, unreadable }: FileList,
  options: ValidateOptions,
): Promise<boolean> {
  let changed = false;
  const lost = unreadable.map(({ path }) => path);
  const listed = new Set(files);
  for (const file of states.keys()) {
    if (listed.has(file) || isUnder(file, lost)) continue;
    states.delete(file);
    changed = true;
  }
  return (await readFiles(states, files, options)) || changed;
}

/** Reads those files that are new or changed; returns true if there were any. */
export async function readFiles(
  states: FileStates,
  files: readonly string[],
  options: ValidateOptions,
): Promise<boolean> {
  let changed = false;
  for (const file of files) {
    const known = states.get(file);
    const stamp = await stampOf(file);
    if (known !== undefined && stamp !== '' && known.stamp === stamp) continue;
    const read = await readFileBytes(file);
    const digest = 'bytes' in read ? hash('sha1', read.bytes) : read.reason;
    if (known?.digest === digest) {
      release(read);
      states.set(file, { ...known, stamp });
      continue;
    }
    const parsed = parseManifest(file, read, known?.cache ?? NO_CACHE, options);
    const content = keepObjects(parsed.content, known?.good ?? null);
    const { cache } = parsed;
    const good = content.broken ? (known?.good ?? null) : content;
    // An undecided policy that was in force is in memory.
    const { problems, rejectedReferences } = content;
    const held =
      content.broken && good !== null
        ? { ...good, undecided: [], problems, rejectedReferences, broken: true }
        : content;
    const kept = content.broken && known !== undefined ? known.cache : cache;
    states.set(file, { stamp, digest, content: held, good, cache: kept });
    changed = true;
  }
  return changed;
}

async function stampOf(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, mtimeMs } = await stat(file, { bigint: true });
    if (Date.now() - Number(mtimeMs) < FRESH) return '';
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch {
    // Deleted since it was listed, or no permission: reading the file reports the problem.
    return '';
  }
}
