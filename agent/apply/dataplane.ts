import type { RuleSource } from '../../apis/compiled.ts';

/**
 * What keeps one kind of firewall as a value of stage 5 says: all that stage 6 is to the rest of
 * the program. One call at a time.
 */
export interface Reconciler<Desired> {
  /**
   * Throws Refusal where the kernel or its tool refuses it; then what was in force still is. What
   * can't be swept is no failure.
   */
  apply(desired: Desired): Promise<Applied>;
  /**
   * What differs from what was last applied, in words, ready for `apply` to repair it; empty:
   * nothing does.
   */
  verify(): Promise<string[]>;
  /** Whether packets meet rules of ours. */
  holdsRules(): Promise<boolean>;
}

export interface Applied {
  readonly change: Change;
  /** Why what nothing leads to any more could not be removed. */
  readonly unswept: Error | null;
  /**
   * What is wanted and can't be held on this kernel, in words, for as long as that is so; null or
   * nothing: all is.
   */
  readonly warning?: string | null;
  /**
   * Milliseconds from the call until the kernel enforced it; what is read and swept after it is not
   * in it.
   */
  readonly enforcedAfter: number;
  /** Of that, what the kernel (or the tool that asks it) took. */
  readonly kernelMicroseconds: number;
}

/** What an apply did. */
export interface Change {
  readonly isEmpty: boolean;
  /** Rules or chains changed, not only members of sets. */
  readonly changesStructure: boolean;
  /** For people, in the words of the dataplane's own tool. Costs something: made when asked for. */
  text(): string;
}

/** A part of a change was refused; what was in force still is. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal';
  /** The policy rule that was refused; null where that can't be told. */
  readonly source: RuleSource | null;
  /** The kernel knows no NFLOG, which the refused rule needs. */
  readonly lacksLog: boolean;

  constructor(
    message: string,
    {
      source,
      lacksLog = false,
      cause,
    }: {
      readonly source: RuleSource | null;
      readonly lacksLog?: boolean;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause });
    this.source = source;
    this.lacksLog = lacksLog;
  }
}
