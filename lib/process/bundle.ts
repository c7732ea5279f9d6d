import { createHash } from 'node:crypto';
import { createWriteStream, type WriteStream } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip, type Gzip } from 'node:zlib';
import { createTar } from 'nanotar';
import type { Redact } from '../sharing/safe-text.ts';

/** Bytes: of the whole file; of one part of it, before compression. */
export const MOST_BUNDLE = 50_000_000;
export const MOST_PART = 8 << 20;
/** Kept free for the manifest: of 5,000 nodes it has 5 MB. */
const MANIFEST_ROOM = 8 << 20;
const LONGEST_NAME_PART = 40;
/** In the manifest. */
const MOST_MISSING = 5_000;

/** A file of the bundle. */
interface BundlePart {
  readonly name: string;
  readonly bytes: number;
  /** It had more; its first lines are kept. */
  readonly isCut?: true;
}

/** A part that could not be had, and the reason. */
interface MissingPart {
  readonly what: string;
  readonly why: string;
}

export interface BundleManifest {
  readonly version: string;
  /** ISO 8601. */
  readonly made: string;
  readonly bounds: { readonly wholeBytes: number; readonly partBytes: number };
  readonly parts: readonly BundlePart[];
  readonly missing: readonly MissingPart[];
  /** The parts that were not asked for, and how to have them. */
  readonly leftOut: readonly MissingPart[];
  /** Content that its owner may want to keep. */
  readonly lookAt: string;
  /** Data that is never collected. */
  readonly neverCollected: string;
}

interface BundleOptions {
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly now: number;
}

const NEVER =
  'Secrets, tokens, kubeconfigs, environment variables, arguments, annotations and labels of any object, ' +
  'and fields, keys of log lines and settings that are not on the lists of known ones; ' +
  'in texts that others wrote, what may be a credential is replaced by [redacted]';

const LOOK_AT =
  'Names of Nodes and of objects, and addresses: of Nodes; of clients in records.json; ' +
  'and, with --with-flows, in flows.jsonl those of all peers that a node had in the last days';

/** A support bundle: a tar.gz file of one folder, with parts and a manifest of them. */
export class SupportBundle {
  readonly #options: BundleOptions;
  readonly #archive: TarGz;
  readonly #folder: string;
  readonly #parts: BundlePart[] = [];
  readonly #missing: MissingPart[] = [];
  readonly #leftOut: MissingPart[] = [];

  /** @param path must not exist */
  constructor(path: string, options: BundleOptions) {
    this.#options = options;
    this.#folder = basename(path).replace(/\.(?:tar\.gz|tgz)$/, '');
    this.#archive = new TarGz(path, { most: MOST_BUNDLE, modified: options.now });
  }

  /** Adds a text, cut at a line if it is too long. Rejects if the file cannot be written. */
  async addText(name: string, text: string): Promise<void> {
    const whole = Buffer.byteLength(text);
    const kept = whole > MOST_PART ? firstLines(text) : text;
    const bytes = Buffer.byteLength(kept);
    if (!(await this.#archive.add(`${this.#folder}/${name}`, kept, MANIFEST_ROOM)))
      this.missing(name, `the bundle has no room: it is at most ${MOST_BUNDLE} bytes`);
    else this.#parts.push({ name, bytes, ...(bytes < whole ? { isCut: true } : {}) });
  }

  /** Adds a value as JSON. */
  async addValue(name: string, value: unknown): Promise<void> {
    await this.addText(name, `${JSON.stringify(value, null, 1)}\n`);
  }

  /** Adds values, one a line. */
  async addLines(name: string, values: readonly unknown[]): Promise<void> {
    await this.addText(name, values.map((one) => `${JSON.stringify(one)}\n`).join(''));
  }

  missing(what: string, why: string): void {
    if (this.#missing.length < MOST_MISSING) this.#missing.push({ what, why: why.slice(0, 500) });
  }

  leftOut(what: string, why: string): void {
    this.#leftOut.push({ what, why });
  }

  /** Adds the manifest, and ends the file. */
  async close(): Promise<BundleManifest & { readonly bytes: number }> {
    const { version, now } = this.#options;
    const manifest: BundleManifest = {
      version,
      made: new Date(now).toISOString(),
      bounds: { wholeBytes: MOST_BUNDLE, partBytes: MOST_PART },
      parts: this.#parts.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      missing: this.#missing,
      leftOut: this.#leftOut,
      lookAt: LOOK_AT,
      neverCollected: NEVER,
    };
    await this.#archive.add(`${this.#folder}/manifest.json`, `${JSON.stringify(manifest, null, 1)}\n`, 0);
    await this.#archive.close();
    return { ...manifest, bytes: this.#archive.bytes };
  }
}

/** A part of a path in the bundle for the name of an object. */
export function pathPart(name: string): string {
  const plain = name.replaceAll(/[^\w.-]/g, '_');
  if (plain === name && plain.length <= LONGEST_NAME_PART && !plain.startsWith('.')) return plain;
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${plain.slice(0, LONGEST_NAME_PART - 9).replace(/^\.+/, '_')}-${digest}`;
}

function firstLines(text: string): string {
  const cut = Buffer.from(text).subarray(0, MOST_PART);
  return cut.subarray(0, cut.lastIndexOf(10) + 1).toString();
}

const BLOCK = 512;
/** The end of an archive (POSIX pax, ustar interchange format). */
const END = Buffer.alloc(2 * BLOCK);
/** Longest name of a file in an archive (ustar). */
const LONGEST_NAME = 100;

/**
 * A tar.gz file of at most so many bytes, written as its files are added; readable by its owner
 * only.
 */
class TarGz {
  readonly #most: number;
  readonly #modified: number;
  readonly #gzip: Gzip = createGzip();
  readonly #file: WriteStream;
  readonly #done: Promise<void>;
  /** Not compressed yet. */
  #pending = 0;

  /**
   * @param path must not exist
   * @param options `most`: bytes; `modified`: of all files, milliseconds since 1970
   */
  constructor(path: string, { most, modified }: { readonly most: number; readonly modified: number }) {
    this.#most = most;
    this.#modified = modified;
    this.#file = createWriteStream(path, { flags: 'wx', mode: 0o600 });
    this.#done = pipeline(this.#gzip, this.#file);
    // The next call of add or close rejects with the error.
    this.#done.catch(() => {});
  }

  /** Bytes in the file so far. */
  get bytes(): number {
    return this.#file.bytesWritten;
  }

  /**
   * False, with nothing added, if the archive might grow beyond its limit by that, as far as it is
   * compressed by now. Rejects if the file cannot be written.
   *
   * @param reserve bytes that must stay free for other files
   */
  async add(name: string, content: string, reserve: number): Promise<boolean> {
    if (Buffer.byteLength(name) > LONGEST_NAME) throw new RangeError(`too long for an archive: ${name}`);
    const data = Buffer.from(content);
    const size = BLOCK + Math.ceil(data.length / BLOCK) * BLOCK;
    if (this.#file.bytesWritten + this.#pending + size + END.length + reserve > this.#most) return false;
    const attrs = { mode: '600', uid: 0, gid: 0, mtime: this.#modified };
    this.#pending += size;
    // Without the end of an archive, which createTar appends. An empty file needs its data, else it
    // is a folder.
    await this.#write(Buffer.from(createTar([{ name, data, attrs }]).subarray(0, size)));
    await this.#flush();
    this.#pending -= size;
    return true;
  }

  async close(): Promise<void> {
    this.#gzip.end(END);
    await this.#done;
  }

  async #write(bytes: Buffer): Promise<void> {
    const written = new Promise<void>((resolve, reject) => {
      this.#gzip.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
    await Promise.race([written, this.#done]);
  }

  /** So that the bytes in the file say what the archive has come to. */
  async #flush(): Promise<void> {
    await Promise.race([new Promise<void>((resolve) => this.#gzip.flush(() => resolve())), this.#done]);
  }
}

/** Keys of a log, beside time, level and message, whose values may be shown. */
interface LogFields {
  readonly identifiers: ReadonlySet<string>;
  /** Their values may be text that others wrote. */
  readonly texts: ReadonlySet<string>;
}

const IDENTIFIER = /^[\w.:/-]{1,253}$/;

/** Lines of Node.js when a process ends by an error. */
const FRAME = /^\s+at /;
const CRASH = /^(?:\w*Error(?: \[\w+\])?: |FATAL ERROR: |<--- |\[\d+:0x[0-9a-f]+\])/;

/**
 * The lines of a log (JSON, or a crash of Node.js) that may be shown to others: keys that are
 * known, texts without what may be a credential. Other lines are left out; the last value says how
 * many.
 */
export function logLines(text: string, fields: LogFields, redact: Redact): readonly unknown[] {
  let leftOut = 0;
  const lines: unknown[] = [];
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const entry = parsed(line);
    if (entry !== null) lines.push(known(entry, fields, redact));
    else if (FRAME.test(line) || CRASH.test(line)) lines.push({ message: redact(line) });
    else leftOut++;
  }
  return leftOut === 0 ? lines : [...lines, { linesLeftOut: leftOut }];
}

function parsed(line: string): Readonly<Record<string, unknown>> | null {
  if (!line.startsWith('{')) return null;
  try {
    return JSON.parse(line) as Readonly<Record<string, unknown>>;
  } catch {
    return null;
  }
}

function known(
  entry: Readonly<Record<string, unknown>>,
  { identifiers, texts }: LogFields,
  redact: Redact,
): object {
  const { timestamp, level, message, ...rest } = entry;
  const taken = Object.entries(rest).flatMap(([key, value]) => {
    const isIdentifier = identifiers.has(key);
    if (!isIdentifier && !texts.has(key)) return [];
    if (typeof value === 'number' || typeof value === 'boolean') return [[key, value]];
    if (typeof value !== 'string') return [];
    return [[key, isIdentifier && IDENTIFIER.test(value) ? value : redact(value)]];
  });
  return {
    ...(typeof timestamp === 'string' ? { timestamp: redact(timestamp) } : {}),
    ...(typeof level === 'string' ? { level: redact(level) } : {}),
    ...(typeof message === 'string' ? { message: redact(message) } : {}),
    ...Object.fromEntries(taken),
  };
}
