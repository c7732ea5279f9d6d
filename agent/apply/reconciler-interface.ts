import type { RuleSource } from '../../apis/compiled.ts';
import type { Family } from '../../lib/net/address.ts';
import { errorMessage } from '../../lib/sharing/error.ts';

/**
 * Makes one kind of firewall match a value of stage 5. The rest of the program uses stage 6 through
 * this interface only. One call at a time.
 */
export interface Reconciler<Desired> {
  /**
   * Throws RefusedError if the kernel or its tool refuses the change; the rules enforced before
   * then stay in force. A failed garbage collection is not an error (see `Applied.leftBehind`).
   */
  apply(desired: Desired): Promise<Applied>;
  /**
   * The differences from the state applied last, as human-readable lines, empty if there are none.
   * The next `apply` repairs them.
   */
  verify(): Promise<string[]>;
  /** Whether packets traverse rules of ours. */
  holdsRules(): Promise<boolean>;
}

export interface Applied {
  readonly change: DataplaneChange;
  /** Why unused objects could not be garbage-collected; null if they were. */
  readonly leftBehind: Error | null;
  /**
   * The part of the desired state that this kernel can't hold, human-readable, for as long as that
   * is so; null or undefined: none.
   */
  readonly warning?: string | null;
  /**
   * The rules of one family of addresses could not be changed; those of the other are in force.
   * Null or undefined: both are.
   */
  readonly failedFamily?: FamilyError | null;
  /**
   * Milliseconds from the call until the kernel enforced the state, without reading and garbage
   * collection afterwards.
   */
  readonly enforcedAfter: number;
  /** The share of the kernel (or of the tool that configures it) in that time, in microseconds. */
  readonly kernelMicroseconds: number;
}

/** The effect of an apply. */
export interface DataplaneChange {
  readonly isEmpty: boolean;
  /** Rules or chains changed, not only members of sets. */
  readonly changesStructure: boolean;
  /**
   * Human-readable, in the language of the dataplane's own tool. Computed on each call, at some
   * cost.
   */
  text(): string;
}

/** The rules of a family could not be changed; those of the other family are in force. */
export class FamilyError extends Error {
  override readonly name = 'FamilyError';
  readonly family: Family;
  /** It has no rules of ours, as far as known: nobody waits for a change of them. */
  readonly isBare: boolean;

  constructor(family: Family, cause: unknown, { isBare = false } = {}) {
    const said = errorMessage(cause);
    super(`the rules of IPv${family} could not be changed: ${said}`, { cause });
    this.family = family;
    this.isBare = isBare;
  }
}

/** The family that has rules of an earlier state; null: both have those in force. */
export function lackingFamily({ failedFamily = null }: Pick<Applied, 'failedFamily'>): Family | null {
  return failedFamily === null || failedFamily.isBare ? null : failedFamily.family;
}

/** A part of a change was refused; the rules enforced before stay in force. */
export class RefusedError extends Error {
  override readonly name: string = 'RefusedError';
  /** The policy rule that was refused; null if unknown. */
  readonly source: RuleSource | null;
  /** The kernel lacks NFLOG, which the refused rule needs. */
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
