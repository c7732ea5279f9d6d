import { type Binding, loadBinding, type NativeContext, type NativeRun } from './binding.ts';
import { toTextError } from './classify.ts';
import { type ErrnoTable, toErrnoTable, toNftError } from './errno.ts';
import { ClosableLane } from './lane.ts';
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
