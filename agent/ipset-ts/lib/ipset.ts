import { IpsetError, toIpsetError } from './errors.ts';
import { createExec, type Exec, ExecError, type ExecOptions, type ExecResult } from './exec.ts';
import { type RestoreOperation, restoreParts, toArguments, toRestoreText } from './operation.ts';
import { parseSave, type SavedSet } from './parse.ts';

/** Options of Ipset.restore. */
interface RestoreOptions {
  /**
   * Accepts a state that exists already: an equal set on create, an existing entry on add (its
   * timeout is replaced), a missing entry on del, and a missing set on destroy. A set of that name
   * with other options is still refused, but one of the other family is not: the kernel does not
   * compare the family.
   */
  readonly exist?: boolean;
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

  /** All sets, or one, with their entries, in the kernel's order, which is arbitrary. */
  async save(name?: string): Promise<SavedSet[]> {
    return parseSave(await this.#run(name === undefined ? ['save'] : ['save', name]));
  }

  async names(): Promise<string[]> {
    const text = await this.#run(['list', '-name']);
    return text.split('\n').filter((line) => line !== '');
  }

  /**
   * Performs all operations in order by one `ipset restore`. A single operation is a plain call
   * unless the options say otherwise; no operations do nothing.
   *
   * This is not a transaction. Lines before the refused one may have taken effect, but not
   * necessarily all: ipset collects adds to a set and drops those that it did not send. For an
   * atomic change, fill a set under another name, then swap.
   */
  async restore(
    operations: readonly RestoreOperation[],
    { exist = false, plain = true }: RestoreOptions = {},
  ): Promise<void> {
    const [first, ...more] = operations;
    if (first === undefined) return;
    // As an argument, since on a line of its own -exist would be lost: only the first of the
    // collected adds decides how they are sent.
    const existing = exist ? ['-exist'] : [];
    if (more.length === 0 && plain) await this.#run([...existing, ...toArguments(first)]);
    else {
      const isLarge = operations.length > LARGE;
      await this.#run([...existing, 'restore'], {
        stdin: isLarge ? restoreParts(operations) : toRestoreText(operations),
      });
    }
  }

  async #run(args: readonly string[], options?: ExecOptions): Promise<string> {
    const { code, stdout, stderr } = await this.#start(args, options);
    if (code !== 0) throw toIpsetError(args, code, stderr);
    return stdout;
  }

  async #start(args: readonly string[], options?: ExecOptions): Promise<ExecResult> {
    try {
      return await this.#exec(args, options);
    } catch (cause) {
      if (cause instanceof ExecError) throw new IpsetError(cause.code, cause.message, { cause });
      throw cause;
    }
  }
}
