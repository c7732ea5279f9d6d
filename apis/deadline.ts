import type { FailsafeEntry } from './config.ts';
import type { Flow } from './flow.ts';

/**
 * Rules are on trial: when nobody has moved the deadline for so long, the kernel accepts the
 * failsafe list and these besides, whatever the rules say (docs/semantics.md section 6).
 */
export interface Deadline {
  /** Whole seconds. */
  readonly milliseconds: number;
  /** From the node, even where the configuration's list lacks them: API servers and controllers. */
  readonly entries: readonly FailsafeEntry[];
  /** Those of the probes that count. */
  readonly flows: readonly Flow[];
}
