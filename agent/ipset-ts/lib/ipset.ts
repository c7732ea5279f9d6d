import type { Entry, Key, TestKey } from './entry.ts';
import { IpsetError, toIpsetError } from './errors.ts';
import { createExec, type Exec, ExecError, type ExecOptions, type ExecResult } from './exec.ts';
import { restoreParts, toArguments, toRestoreText, toTestArguments } from './format.ts';
import type { AddOperation, DelOperation, Operation } from './operation.ts';
import { parseList, parseNames, parseSave } from './parse.ts';
import type { ListedSet, SavedSet } from './saved-set.ts';
import type { SetDefinition, SetRef, SetType } from './set.ts';
import { nameText } from './value.ts';

export interface CallOptions {
  /** Ends ipset and rejects with ABORTED. What was done until then stays done. */
  readonly signal?: AbortSignal;
}

export interface ExistOptions extends CallOptions {
  /**
   * Passes over what is so already: an equal set on create, an entry on add (its timeout, comment
   * and skb values are set anew, its counters where given) and the missing entry on del and set on
   * destroy. A set of that name with other options is still refused, but not one of the other
   * family: the kernel does not compare that.
   */
  readonly exist?: boolean;
}

export interface RestoreOptions extends ExistOptions {
  /**
   * One operation is a plain call unless this is false: then it is a restore, too (see
   * RealExecOptions.ahead).
   */
  readonly plain?: boolean;
}

/** So many operations are worth making while ipset works on others. */
const LARGE = 1000;

/**
 * The ipset command. Every call is one process; each rejects with an IpsetError. Calls made at the
 * same time may overtake each other.
 */
export class Ipset {
  readonly #exec: Exec;

  constructor(exec: Exec = createExec()) {
    this.#exec = exec;
  }

  create(set: SetDefinition, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'create', set }, options);
  }

  /** Removes the set. While rules or lists name it: IN_USE. */
  destroy(name: string, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'destroy', name }, options);
  }

  /** Removes all entries of the set. */
  flush(name: string, options: CallOptions = {}): Promise<void> {
    return this.#one({ op: 'flush', name }, options);
  }

  add<T extends SetType>(set: SetRef<T>, entry: Entry<T>, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'add', set, entry } as AddOperation, options);
  }

  del<T extends SetType>(set: SetRef<T>, key: Key<T>, options: ExistOptions = {}): Promise<void> {
    return this.#one({ op: 'del', set, entry: key } as DelOperation, options);
  }

  /**
   * Whether the set holds it. An address is looked for in networks, too; a network only as itself.
   */
  async test<T extends SetType>(
    set: SetRef<T>,
    key: TestKey<T>,
    options: CallOptions = {},
  ): Promise<boolean> {
    const args = toTestArguments(set, key);
    const result = await this.#start(args, options);
    if (result.code === 0) return true;
    // ipset's exit code is 1 for "no" as for errors.
    if (result.stderr.includes(' is NOT in set ')) return false;
    throw toIpsetError(args, result.code, result.stderr);
  }

  /**
   * Exchanges what two names stand for, at once for every packet. Both must be of one type and
   * family (TYPE_MISMATCH); their options may differ, and go along.
   */
  swap(from: string, to: string, options: CallOptions = {}): Promise<void> {
    return this.#one({ op: 'swap', from, to }, options);
  }

  /** Refused with IN_USE while rules or lists name the set: swap is not. */
  rename(from: string, to: string, options: CallOptions = {}): Promise<void> {
    return this.#one({ op: 'rename', from, to }, options);
  }

  /** All sets, or one, with their entries; in the kernel's order, which is none. */
  async save(name?: string, options: CallOptions = {}): Promise<SavedSet[]> {
    return parseSave(await this.#run(['save', ...named(name)], options));
  }

  /**
   * The same with references, memory and revision; `terse` leaves out the entries, which is quick
   * whatever their number.
   */
  async list(name?: string, options: CallOptions & { readonly terse?: boolean } = {}): Promise<ListedSet[]> {
    const terse = options.terse === true ? ['-terse'] : [];
    return parseList(await this.#run(['list', ...terse, ...named(name)], options));
  }

  async names(options: CallOptions = {}): Promise<string[]> {
    return parseNames(await this.#run(['list', '-name'], options));
  }

  /**
   * Does all in order, by one `ipset restore`; one operation is a plain call, unless the options
   * say otherwise, none is nothing.
   *
   * It is no transaction, and of more than 1,000 operations not even what is refused here comes
   * before ipset has begun. Up to the refused line things may be done, though not all that stands
   * before it: ipset collects adds to a set and drops those it did not send. What must change at
   * once is filled under another name, then swapped.
   */
  async restore(
    operations: readonly Operation[],
    { plain = true, ...options }: RestoreOptions = {},
  ): Promise<void> {
    const [first, ...more] = operations;
    if (first === undefined) return;
    if (more.length === 0 && plain) return this.#one(first, options);
    // On a line of its own, -exist would be forgotten: only the first of collected adds says how
    // they are sent.
    const args = [...existing(options), 'restore'];
    const isLarge = operations.length > LARGE;
    await this.#run(args, {
      ...options,
      stdin: isLarge ? restoreParts(operations) : toRestoreText(operations),
    });
  }

  async #one(operation: Operation, options: ExistOptions): Promise<void> {
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
      if (signal?.aborted) throw new IpsetError('ABORTED', 'ipset was ended', { command: args, cause });
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
