import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { present } from '../../lib/sharing/present.ts';

/** A file as it is sent. */
interface StaticFile {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  readonly type: string;
}

/** Where the built pages are: in the checkout, and at the same place in images and packages. */
export const CONSOLE_FILES = join(import.meta.dirname, '../../console/dist');

/** Flat: the API server takes a further segment for a subresource. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
/** Files made of others: they are sent in their place. */
const ENCODINGS = { br: '.br', gzip: '.gz' } as const;
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.txt': 'text/plain; charset=utf-8',
};
/** Names that change with their content, as bundlers make them: `app-B3x9Qk2w.js`. */
const HASHED = /-[A-Za-z0-9_-]{8,}\.[a-z]+$/;
export const IMMUTABLE = 'private, max-age=31536000, immutable';
/** Bytes, of all files as they are, and how many. */
const MOST_BYTES = 16 << 20;
const MOST_FILES = 200;

/**
 * Sent with each page and script. The page may load its own files and ask its own origin, and that
 * is all: no script in the page's text, no other origin, no frame around it.
 */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    // Lit makes its templates, which are constants, by a policy of this name.
    'trusted-types lit-html',
    "require-trusted-types-for 'script'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

interface Held {
  readonly plain: Buffer;
  readonly br: Buffer | null;
  readonly gzip: Buffer;
}

/**
 * The files of the console's pages, read once, when the first is asked for. Only what lies in the
 * folder itself, by names without a separator, can be asked for.
 */
export class StaticFiles {
  readonly #folder: string;
  #files: Promise<ReadonlyMap<string, Held>> | null = null;

  /** @param folder of the built pages: `index.html` and what it names */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Null: there is no such file. Throws if the files cannot be read.
   *
   * @param accepts the header accept-encoding
   */
  async file(name: string, accepts: string): Promise<StaticFile | null> {
    this.#files ??= readFiles(this.#folder).catch((error: unknown) => {
      this.#files = null;
      throw error;
    });
    const held = (await this.#files).get(name);
    if (held === undefined) return null;
    const encoding = (['br', 'gzip'] as const).find(
      (one) =>
        held[one] !== null && new RegExp(`(^|[\\s,])${one}(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$))`).test(accepts),
    );
    return {
      bytes: (encoding === undefined ? null : held[encoding]) ?? held.plain,
      type: TYPES[extname(name)] ?? 'application/octet-stream',
      headers: {
        ...PAGE_HEADERS,
        vary: 'accept-encoding',
        'cache-control': HASHED.test(name) ? IMMUTABLE : 'no-store',
        ...present({ 'content-encoding': encoding }),
      },
    };
  }
}

async function readFiles(folder: string): Promise<ReadonlyMap<string, Held>> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((one) => one.isFile() && NAME.test(one.name)).map(({ name }) => name);
  if (names.length > MOST_FILES) throw new Error(`${folder} has more than ${MOST_FILES} files`);
  const bytes = new Map<string, Buffer>();
  let length = 0;
  for (const name of names) {
    const one = await readFile(join(folder, name));
    length += one.length;
    if (length > MOST_BYTES) throw new Error(`${folder} has more than ${MOST_BYTES} bytes`);
    bytes.set(name, one);
  }
  // The API server rewrites links in HTML of an aggregated API. An answer in an encoding other than
  // gzip and deflate it closes before it passes it on (rewriteResponse in
  // pkg/util/proxy/transport.go of k8s.io/apimachinery 0.35.4).
  const held = new Map<string, Held>();
  for (const [name, plain] of bytes) {
    if (Object.values(ENCODINGS).some((ending) => name.endsWith(ending))) continue;
    held.set(name, {
      plain,
      br: extname(name) === '.html' ? null : (bytes.get(`${name}${ENCODINGS.br}`) ?? null),
      gzip: bytes.get(`${name}${ENCODINGS.gzip}`) ?? (await promisify(gzip)(plain, { level: 9 })),
    });
  }
  return held;
}
