/**
 * Rollout of a policy over its nodes, step by step: `spec.rollout` and `status.rollout` of a
 * ClusterNetworkPolicy (docs/rollout.md).
 */

/** A number of nodes, or a share of them as in `25%`. */
export type RolloutStep = number | string;

/** `spec.rollout`; what is absent comes from the controller's configuration. */
export interface RolloutSpec {
  readonly steps?: readonly RolloutStep[];
  /** Seconds from the time when all nodes of a step have confirmed to the next step. */
  readonly pause?: number;
  /** More nodes that fail than this pause the rollout. */
  readonly maxFailures?: number;
  /** Policies with the same group have one rollout. */
  readonly group?: string;
}

/** The settings of a rollout, with all defaults. */
export type RolloutSettings = Required<Omit<RolloutSpec, 'group'>>;

export const DEFAULT_ROLLOUT: RolloutSettings = {
  steps: [1, '5%', '25%', '100%'],
  pause: 60,
  maxFailures: 0,
};

/** The most characters of a spec as JSON: a status holds up to two versions, an object 1.5 MB. */
export const LONGEST_ROLLOUT_SPEC = 256 * 1024;

/** The annotation that says what is to become of a rollout. */
export const ROLLOUT_ANNOTATION = 'nodewall.io/rollout';
export const ROLLOUT_COMMANDS = ['pause', 'resume', 'undo', 'promote'] as const;
export type RolloutCommand = (typeof ROLLOUT_COMMANDS)[number];

/**
 * The command in an annotation; null: none, or not a valid one. Words after the command make a
 * command that is given a second time another value.
 */
export function rolloutCommand(annotation: string | null): RolloutCommand | null {
  const [word] = (annotation ?? '').trim().split(/\s+/, 1);
  return ROLLOUT_COMMANDS.find((command) => command === word) ?? null;
}

export const ROLLOUT_STATES = ['Progressing', 'Paused', 'Completed', 'Undone'] as const;
export type RolloutState = (typeof ROLLOUT_STATES)[number];

/** One policy of a rollout, and the generations that nodes get. */
export interface RolloutMember {
  readonly name: string;
  readonly uid: string;
  /** For nodes that no step has taken yet; 0: no version. */
  readonly from: number;
  /** For the nodes that take part. */
  readonly to: number;
  /** The annotation that was acted on last. */
  readonly command?: string;
}

/** Which nodes take part in a rollout so far. */
export interface RolloutShare {
  /** Nodes with a place up to this one: hex digits; '' is none, `EVERY_PLACE` all. */
  readonly through: string;
  /** Further nodes, by name. */
  readonly firsts: readonly string[];
}

/** A place behind those of all nodes. */
export const EVERY_PLACE = 'z';

/**
 * The leader's decision, by which every controller compiles. It is in the status of each policy of
 * the group; the one with the highest serial counts.
 */
export interface RolloutDecision extends RolloutShare {
  readonly serial: number;
  /** The policy's uid, or `group NAME`: places of nodes depend on it. */
  readonly key: string;
  readonly state: RolloutState;
  /** Why it is paused: until a command resumes it, or while an annotation says so. */
  readonly pausedBy?: 'Command' | 'Failures';
  /** The number of steps begun. */
  readonly step: number;
  /** Sorted by name. */
  readonly policies: readonly RolloutMember[];
}

/** The leader's notes beside a decision; no controller compiles by them. */
export interface RolloutNotes {
  /** When all nodes of the step had confirmed (ISO 8601); absent: not yet. */
  readonly settled?: string;
  /** Nodes whose failure was there when the rollout was resumed. */
  readonly tolerated?: readonly string[];
}

/** A version of a policy that some node may have to enforce. */
export interface RolloutVersion {
  readonly generation: number;
  /** JSON, without `rollout`. */
  readonly spec: string;
}

/** `status.rollout`. */
export interface RolloutStatus extends RolloutNotes {
  readonly decision?: RolloutDecision;
  readonly versions?: readonly RolloutVersion[];
  /** For people: `Step 2 of 4`, `Paused at step 1 of 4`, `Completed`, `Undone`. */
  readonly progress?: string;
  readonly message?: string;
  /** The number of nodes, of those that take part, and of those of them that confirmed. */
  readonly nodes?: number;
  readonly updated?: number;
  readonly confirmed?: number;
  /** Sorted; the first `MOST_NAMED_NODES`. */
  readonly failed?: readonly { readonly node: string; readonly reason: string }[];
  /** Nodes that take part and are not waited for; sorted; the first `MOST_NAMED_NODES`. */
  readonly silent?: readonly { readonly node: string; readonly reason: string }[];
  /** Nodes that take part and have not confirmed yet; sorted; the first `MOST_NAMED_NODES`. */
  readonly waiting?: readonly string[];
}

export const MOST_NAMED_NODES = 20;
