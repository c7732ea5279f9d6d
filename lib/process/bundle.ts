import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { TarGz } from './tar-gz.ts';

/** Bytes: of the whole file; of one part of it, before compression. */
export const MOST_BUNDLE = 50_000_000;
export const MOST_PART = 8 << 20;
/** Kept free for the manifest: of 5,000 nodes it has 5 MB. */
const MANIFEST_ROOM = 8 << 20;
const LONGEST_NAME_PART = 40;
/** In the manifest. */
const MOST_MISSING = 5_000;

/** A file of the bundle. */
export interface BundlePart {
  readonly name: string;
  readonly bytes: number;
  /** It had more; its first lines are kept. */
  readonly isCut?: true;
}

/** A part that could not be had, and the reason. */
export interface MissingPart {
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
