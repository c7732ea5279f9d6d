import { type Binding, loadBinding, type NativeContext, type NativeRun } from './binding.ts';
import { ClosableLane } from './closable.ts';
import {
  type ErrnoTable,
  NftError,
  type NftErrorCode,
  type NftErrorDetail,
  plainDetail,
  toErrnoTable,
  toNftError,
} from './errors.ts';
import type { Generation } from './netlink.ts';

/**
 * Format of listings. Applies to the output of run(); list() uses only `numeric` and `stateless`.
 */
export interface NftablesOptions {
  /** Numbers instead of names of protocols, priorities, marks and times. Default true. */
  numeric?: boolean;
  /** Handles in text listings; JSON always has them. Default false. */
  handles?: boolean;
  /** run() returns the objects that it added, with handles. Default false. */
  echo?: boolean;
  /** Omits stateful information such as counters from listings. Default false. */
  stateless?: boolean;
}

/** The result of a successful run. */
export interface RunResult {
  /** The output of nft: listings and echoed commands. */
  output: string;
  generation: Generation;
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
  readonly #flags: Binding['outputFlags'];
  readonly #errnos: ErrnoTable;
  readonly #context: NativeContext;
  readonly #textFlags: number;
  readonly #jsonFlags: number;
  readonly #lane = new ClosableLane('Nftables');

  /** Throws an NftError if no netlink socket can be opened. `binding` is for tests only. */
  constructor(options: NftablesOptions = {}, binding: Binding = loadBinding()) {
    const flags = binding.outputFlags;
    this.#flags = flags;
    this.#errnos = toErrnoTable(binding.errors);
    const shared =
      (options.numeric === false ? 0 : flags.numeric) | (options.stateless ? flags.stateless : 0);
    this.#jsonFlags = shared | flags.json;
    this.#textFlags = shared | (options.handles ? flags.handle : 0) | (options.echo ? flags.echo : 0);
    try {
      this.#context = new binding.Context();
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }

  /**
   * Runs commands as one transaction: all of them or none. Rejects with an NftError whose line,
   * column and `refersTo` point into the text. Do not run `monitor`, which would never end (see
   * Monitor).
   */
  async run(text: string): Promise<RunResult> {
    const { output, before, after } = await this.#command(text, this.#textFlags, false);
    return { output, generation: { before, after } };
  }

  /** Dry run: the kernel validates the transaction and discards it. Rejects as run() would. */
  async check(text: string): Promise<void> {
    await this.#command(text, this.#textFlags, true);
  }

  /**
   * Runs `list ${what}` ('table inet filter', 'chains', 'set ip t s') and returns the objects of
   * its JSON: the content of `nftables`. `terse` omits the elements of sets. A large table is slow
   * and blocks the process while its JSON is parsed; see Netlink.snapshot() for objects and
   * counters.
   */
  async list(what: string, options: { terse?: boolean } = {}): Promise<JsonObject[]> {
    if (typeof what !== 'string') throw new TypeError(`what must be a string, not ${typeof what}`);
    const flags = this.#jsonFlags | (options.terse ? this.#flags.terse : 0);
    const { output } = await this.#command(`list ${what}`, flags, false);
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

  async #command(text: string, flags: number, dryRun: boolean): Promise<NativeRun> {
    if (typeof text !== 'string') throw new TypeError(`text must be a string, not ${typeof text}`);
    if (text.includes('\0')) throw new RangeError('text must not contain NUL: libnftables would stop there');
    return this.#lane.run(async () => {
      let run: NativeRun;
      try {
        run = await this.#context.run(text, flags, dryRun);
      } catch (error) {
        throw toNftError(error, this.#errnos);
      }
      if (!run.succeeded) throw toTextError(run.errors, text, this.#errnos);
      return run;
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
const located = /^(.+?):(\d+):(\d+)-(\d+): (Error|Warning): (.*)$/;
const bare = /^(?:netlink: |internal:0:0-0: )?(?:Error: )(.*)$/;

/**
 * Converts libnftables' messages about a failed command, which are English text only, to an
 * NftError.
 *
 * Matching this text is safe: libnftables has no translations (no gettext), and its messages about
 * the kernel's answers end in strerror(errno). That text depends on the C locale, which is "C"
 * unless the process calls setlocale(); Node.js does not. And `table` comes from strerror() of the
 * same process, so both texts would change together. A message that does not match is SYNTAX if it
 * has a position in the text, else UNKNOWN, with the output in `stderr`.
 */
export function toTextError(stderr: string, text: string, table: ErrnoTable): NftError {
  const lines = stderr.split('\n');
  const details: NftErrorDetail[] = [];
  for (const [index, line] of lines.entries()) {
    const detail = readError(line, lines.slice(index + 1, index + 3), text, table);
    if (detail) details.push(detail);
  }
  const [first, ...rest] = details;
  const fallback = plainDetail('UNKNOWN', stderr.trim() || 'libnftables failed without a message');
  return new NftError([first ?? fallback, ...rest], stderr);
}

function readError(line: string, after: string[], text: string, table: ErrnoTable): NftErrorDetail | null {
  const place = located.exec(line);
  if (!place) {
    const [, message] = bare.exec(line) ?? [];
    return message === undefined ? null : toDetail(message, false, table);
  }
  const [, , row = '', from = '', , severity, message = ''] = place;
  if (severity !== 'Error') return null;
  const lineNumber = Number(row);
  if (lineNumber === 0) return toDetail(message, false, table);
  const command = text.split('\n')[lineNumber - 1] ?? null;
  return {
    ...toDetail(message, true, table),
    line: lineNumber,
    column: Number(from),
    command,
    refersTo: underlined(after),
  };
}

function toDetail(message: string, hasPlace: boolean, table: ErrnoTable): NftErrorDetail {
  const errno = errnoIn(message, table);
  if (errno !== null) return { ...plainDetail(table.nameOf(errno), message), errno };
  const own = ownMessages.find(([pattern]) => pattern.test(message));
  return plainDetail(own?.[1] ?? (hasPlace ? 'SYNTAX' : 'UNKNOWN'), message);
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

/**
 * The part that libnftables underlines: it repeats the line of the text and marks the part with ^
 * or ~ below.
 */
function underlined([source = '', marks = '']: string[]): string | null {
  if (!/^[\s~]*\^[\s~^]*$/.test(marks)) return null;
  const from = marks.indexOf('^');
  const to = marks.lastIndexOf('^') + 1;
  return source.slice(from, to) || null;
}
