import { loadBinding, type NativeContext, type NativeRun } from './binding.ts';
import { ClosableLane } from './closable.ts';
import {
  type ErrnoTable,
  NftError,
  type NftErrorCode,
  type NftErrorDetail,
  toErrnoTable,
  toNftError,
} from './errors.ts';

interface NftablesOptions {
  /** Numbers instead of names of protocols, priorities, marks and times. Default true. */
  numeric?: boolean;
}

/** A value of JSON.parse(). */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** An object of JSON.parse(). */
export interface JsonObject {
  [key: string]: JsonValue;
}

/**
 * A libnftables context: runs commands in nft's language, as text. Bound to the network namespace
 * in which it is created.
 *
 * Commands run on libuv's thread pool, one at a time: those of one context in call order, and never
 * two of one process at once, for which libnftables 1.0.6 is not safe. All methods return promises
 * and never throw synchronously. A context is freed when it is garbage-collected; close() frees it
 * at once.
 */
export class Nftables {
  readonly #errnos: ErrnoTable;
  readonly #context: NativeContext;
  readonly #textFlags: number;
  readonly #jsonFlags: number;
  readonly #lane = new ClosableLane('Nftables');

  /** Throws an NftError if no netlink socket can be opened. */
  constructor(options: NftablesOptions = {}) {
    const binding = loadBinding();
    const { json, numeric } = binding.outputFlags;
    this.#errnos = toErrnoTable(binding.errors);
    this.#textFlags = options.numeric === false ? 0 : numeric;
    this.#jsonFlags = this.#textFlags | json;
    try {
      this.#context = new binding.Context();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }

  /**
   * Runs commands as one transaction: all of them or none. Returns nft's listings. Do not run
   * `monitor`, which would never end (see Monitor).
   */
  run(text: string): Promise<string> {
    return this.#command(text, this.#textFlags);
  }

  /**
   * Runs `list ${what}` ('table inet filter', 'chains', 'set ip t s') and returns the objects of
   * its JSON: the content of `nftables`. A large table is slow and blocks the process while its
   * JSON is parsed; see Netlink.snapshot() for objects and counters.
   */
  async list(what: string): Promise<JsonObject[]> {
    const output = await this.#command(`list ${what}`, this.#jsonFlags);
    // If there is nothing to list, libnftables prints nothing at all.
    return output === '' ? [] : JSON.parse(output).nftables;
  }

  /**
   * Waits for pending commands, then frees the context. Idempotent; later calls reject with code
   * CLOSED.
   */
  close(): Promise<void> {
    return this.#lane.close(() => this.#context.close());
  }

  async #command(text: string, flags: number): Promise<string> {
    if (text.includes('\0')) throw new RangeError('text must not contain NUL: libnftables would stop there');
    return this.#lane.run(async () => {
      let run: NativeRun;
      try {
        run = await this.#context.run(text, flags);
      } catch (error) {
        throw toNftError(error, this.#errnos);
      }
      if (!run.succeeded) throw toTextError(run.errors, this.#errnos);
      return run.output;
    });
  }
}

// Errors that libnftables detects by itself about the rules in the kernel, so that the message has
// no strerror().
const ownMessages: readonly [RegExp, NftErrorCode][] = [
  // intervals.c compares new ranges with those it read from the kernel.
  [/^interval overlaps with an existing one/, 'EEXIST'],
  [/^conflicting intervals specified/, 'EEXIST'],
  // rule.c, cache.c
  [/^(?:Could not|cannot) process rule: .*does not exist/i, 'ENOENT'],
];

// "<cmdline>:3:12-20: Error: text", and the parser's "<cmdline>:3:12-20: Error: syntax error,
// unexpected ...".
const located = /^.+?:(\d+):\d+-\d+: (Error|Warning): (.*)$/;
const bare = /^(?:netlink: |internal:0:0-0: )?(?:Error: )(.*)$/;

/**
 * Converts libnftables' messages about a failed command, which are English text only, to an
 * NftError.
 *
 * Matching this text is safe: libnftables has no translations (no gettext), and its messages about
 * the kernel's answers end in strerror(errno). That text depends on the C locale, which is "C"
 * unless the process calls setlocale(); Node.js does not. And `table` comes from strerror() of the
 * same process, so both texts would change together. A message that does not match is SYNTAX if it
 * has a position in the text, else UNKNOWN.
 */
export function toTextError(stderr: string, table: ErrnoTable): NftError {
  const [first, ...rest] = stderr.split('\n').flatMap((line) => readError(line, table) ?? []);
  const message = stderr.trim() || 'libnftables failed without a message';
  return new NftError([first ?? { code: 'UNKNOWN', message, operation: null }, ...rest]);
}

function readError(line: string, table: ErrnoTable): NftErrorDetail | null {
  const place = located.exec(line);
  if (!place) {
    const [, message] = bare.exec(line) ?? [];
    return message === undefined ? null : toDetail(message, false, table);
  }
  const [, row, severity, message = ''] = place;
  return severity === 'Error' ? toDetail(message, Number(row) > 0, table) : null;
}

function toDetail(message: string, hasPlace: boolean, table: ErrnoTable): NftErrorDetail {
  const errno = errnoIn(message, table);
  if (errno !== null) return { code: table.nameOf(errno), message, operation: null };
  const own = ownMessages.find(([pattern]) => pattern.test(message));
  return { code: own?.[1] ?? (hasPlace ? 'SYNTAX' : 'UNKNOWN'), message, operation: null };
}

/**
 * The errno whose message is the whole text, or its part after the last colon; a hint may follow
 * ("; did you mean ...").
 */
function errnoIn(message: string, table: ErrnoTable): number | null {
  const withoutHint = message.replace(/; did you mean .*$/, '').replace(/ \(you must be root\)$/, '');
  const parts = withoutHint.split(': ');
  return table.errnoOf(withoutHint) ?? table.errnoOf(parts.at(-1) ?? '');
}
