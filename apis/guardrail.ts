import type { DecidingRule } from './difference/row.ts';
import type { Flow } from './flow.ts';

/** A flow of a Guardrail whose verdict is another than it must be. */
export interface Violation {
  readonly node: string;
  /** As in `mustAllow[0]`. */
  readonly item: string;
  readonly flow: Flow;
  /** The rule that decides; null: none. */
  readonly rule: DecidingRule | null;
}

/** Pending: it is not evaluated, because it names a ClusterGroup that does not exist. */
export const GUARDRAIL_PHASES = ['Holds', 'Broken', 'Pending'] as const;

/** The `status` of a Guardrail. */
export interface GuardrailStatus {
  readonly phase: (typeof GUARDRAIL_PHASES)[number];
  readonly observedGeneration: number;
  /** By node name, the first of them. */
  readonly violations: readonly Violation[];
  /** The missing objects that it names, one line each; while it is Pending, it waits for them. */
  readonly problems?: readonly string[];
}

/** The most violations in a status. */
export const MOST_VIOLATIONS = 20;
