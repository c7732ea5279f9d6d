import type {
  AddOperation,
  DelOperation,
  Key,
  ListedSet,
  RestoreOperation,
  SavedSet,
  SetEntry,
  TestKey,
} from './entry.ts';
import { IpsetError, toIpsetError } from './errors.ts';
import { createExec, type Exec, ExecError, type ExecOptions, type ExecResult } from './exec.ts';
import { restoreParts, toArguments, toRestoreText, toTestArguments } from './format.ts';
import { parseList, parseSave, parseSetNames } from './parse.ts';
import type { SetDefinition, SetRef, SetType } from './set.ts';
import { nameText } from './value.ts';

/** Options of every call. */
export interface CallOptions {
  /** Kills ipset and rejects with ABORTED. Changes made until then stay. */
  readonly signal?: AbortSignal;
}

/** Options of calls that can accept an existing state. */
export interface ExistOptions extends CallOptions {
  /**
   * Accepts a state that exists already: an equal set on create, an existing entry on add (its
   * timeout, comment and skb values are replaced, its counters if given), a missing entry on del,
   * and a missing set on destroy. A set of that name with other options is still refused, but one
   * of the other family is not: the kernel does not compare the family.
   */
  readonly exist?: boolean;
}

/** Options of Ipset.restore. */
export interface RestoreOptions extends ExistOptions {
  /**
   * A single operation is a plain call unless this is false; then it is a restore too (see
   * RealExecOptions.ahead).
   */
  readonly plain?: boolean;
}

/** Above this number of operations, the text is made in parts while ipset works. */
const LARGE = 1000;

/**
 * The ipset command. Every call is one process and rejects with an IpsetError. Concurrent calls may
 * overtake each other.
 */
export class Ipset {
  readonly #exec: Exec;

  constructor(exec: Exec = createExec()) {
    this.#exec = exec;
  }

  create(set: SetDefinition, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'create', set }, options);
  }

  /** Removes the set. IN_USE while rules or lists refer to it. */
  destroy(name: string, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'destroy', name }, options);
  }

  /** Removes all entries of the set. */
  flush(name: string, options: CallOptions = {}): Promise<void> {
    return this.#one({ op: 'flush', name }, options);
  }

  add<T extends SetType>(set: SetRef<T>, entry: SetEntry<T>, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'add', set, entry } as AddOperation, options);
  }

  del<T extends SetType>(set: SetRef<T>, key: Key<T>, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'del', set, entry: key } as DelOperation, options);
  }

  /**
   * Whether the set contains the key. An address is also looked up in networks; a network only as
   * itself.
   */
  async test<T extends SetType>(
    set: SetRef<T>,
    key: TestKey<T>,
    options: CallOptions = {},
  ): Promise<boolean> {
    const args = toTestArguments(set, key);
    const result = await this.#start(args, options);
    if (result.code === 0) return true;
    // ipset's exit code is 1 both for "not in the set" and for errors.
    if (result.stderr.includes(' is NOT in set ')) return false;
    throw toIpsetError(args, result.code, result.stderr);
  }

  /**
   * Exchanges the contents of two sets, atomically for every packet. Both must have the same type
   * and family (TYPE_MISMATCH); their options may differ and are exchanged too.
   */
  swap(from: string, to: string, options: CallOptions = {}): Promise<void> {
    return this.#one({ op: 'swap', from, to }, options);
  }

  /** Renames a set. IN_USE while rules or lists refer to it; use swap then. */
  rename(from: string, to: string, options: CallOptions = {}): Promise<void> {
    return this.#one({ op: 'rename', from, to }, options);
  }

  /** All sets, or one, with their entries, in the kernel's order, which is arbitrary. */
  async save(name?: string, options: CallOptions = {}): Promise<SavedSet[]> {
    return parseSave(await this.#run(['save', ...named(name)], options));
  }

  /**
   * Like save, with references, memory and revision. `terse` omits the entries, which is fast
   * whatever their number.
   */
  async list(name?: string, options: CallOptions & { readonly terse?: boolean } = {}): Promise<ListedSet[]> {
    const terse = options.terse === true ? ['-terse'] : [];
    return parseList(await this.#run(['list', ...terse, ...named(name)], options));
  }

  async names(options: CallOptions = {}): Promise<string[]> {
    return parseSetNames(await this.#run(['list', '-name'], options));
  }

  /**
   * Performs all operations in order by one `ipset restore`. A single operation is a plain call
   * unless the options say otherwise; no operations do nothing.
   *
   * This is not a transaction. With more than 1,000 operations, ipset may have begun before a later
   * operation is refused here. Lines before the refused one may have taken effect, but not
   * necessarily all: ipset collects adds to a set and drops those that it did not send. For an
   * atomic change, fill a set under another name, then swap.
   */
  async restore(
    operations: readonly RestoreOperation[],
    { plain = true, ...options }: RestoreOptions = {},
  ): Promise<void> {
    const [first, ...more] = operations;
    if (first === undefined) return;
    if (more.length === 0 && plain) return this.#one(first, options);
    // As an argument, since on a line of its own -exist would be lost: only the first of the
    // collected adds decides how they are sent.
    const args = [...existing(options), 'restore'];
    const isLarge = operations.length > LARGE;
    await this.#run(args, {
      ...options,
      stdin: isLarge ? restoreParts(operations) : toRestoreText(operations),
    });
  }

  async #one(operation: RestoreOperation, options: ExistOptions): Promise<void> {
    await this.#run([...existing(options), ...toArguments(operation)], options);
  }

  async #run(args: readonly string[], options: ExecOptions): Promise<string> {
    const { code, stdout, stderr } = await this.#start(args, options);
    if (code !== 0) throw toIpsetError(args, code, stderr);
    return stdout;
  }

  async #start(args: readonly string[], { stdin, signal }: ExecOptions): Promise<ExecResult> {
    try {
      return await this.#exec(args, {
        ...(stdin === undefined ? {} : { stdin }),
        ...(signal ? { signal } : {}),
      });
    } catch (cause) {
      if (cause instanceof ExecError)
        throw new IpsetError(cause.code, cause.message, { command: args, cause });
      if (signal?.aborted) throw new IpsetError('ABORTED', 'ipset was aborted', { command: args, cause });
      throw cause;
    }
  }
}

function existing({ exist }: ExistOptions): string[] {
  return exist === true ? ['-exist'] : [];
}

function named(name: string | undefined): string[] {
  return name === undefined ? [] : [nameText(name)];
}
