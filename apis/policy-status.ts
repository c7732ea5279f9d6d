/**
 * The `status` of a ClusterNetworkPolicy: what the controller writes, by the status subresource.
 * Its schema is schema/policystatus.ts.
 */

export const POLICY_PHASES = [
  /** Nodes are selected; none enforces this version yet. */
  'Pending',
  /** Some nodes enforce it. */
  'Realizing',
  /** Every node that is selected enforces it. */
  'Realized',
  /** One node or more can't enforce it: `failingNodes`. */
  'Failed',
  /** It applies to no node, because it selects none or has no rules. */
  'NoNodes',
  /** Left out; `enforcedGeneration` is the version that is enforced instead, if there is one. */
  'Invalid',
  /** The feature gate NodeNetworkPolicy is off: nothing is enforced. */
  'Disabled',
] as const;
export type PolicyPhase = (typeof POLICY_PHASES)[number];

export interface PolicyStatus {
  readonly phase: PolicyPhase;
  /** Of the version that all of this is about. */
  readonly observedGeneration: number;
  /** Of the version that is enforced in place of an invalid one. */
  readonly enforcedGeneration?: number;
  /**
   * Its spec as JSON, for a controller that starts and never saw that version; absent where it is
   * longer than `LONGEST_SPEC`.
   */
  readonly enforcedSpec?: string;
  /** Nodes that enforce it, and nodes that should. */
  readonly currentNodesRealized: number;
  readonly desiredNodesRealized: number;
  /** By name; the first `MOST_FAILING_NODES`. */
  readonly failingNodes?: readonly FailingNode[];
  /** Why it was left out, a line each; the first `MOST_PROBLEMS`. */
  readonly problems?: readonly string[];
  readonly conditions: readonly PolicyCondition[];
}

export interface FailingNode {
  readonly node: string;
  /** Absent where all of the policy fails. */
  readonly rule?: string;
  readonly reason: string;
}

/** A metav1.Condition. */
export interface PolicyCondition {
  /** Accepted: it is valid. Realized: it is enforced wherever it should be. */
  readonly type: 'Accepted' | 'Realized';
  readonly status: 'True' | 'False' | 'Unknown';
  readonly observedGeneration: number;
  /** ISO 8601, UTC, to the second: when `status` last changed. */
  readonly lastTransitionTime: string;
  /** One word for programs. */
  readonly reason: string;
  /** For people. */
  readonly message: string;
}

export const MOST_FAILING_NODES = 20;
export const MOST_PROBLEMS = 20;
/**
 * Characters. An object of the API has room for 1.5 MB, and the spec that is invalid is in it too.
 */
export const LONGEST_SPEC = 512 * 1024;
/** Characters of a reason or a problem. */
export const LONGEST_REASON = 512;
