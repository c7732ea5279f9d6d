import { ATOMIC_OBJECT, count, OBJECT_NAME } from './schema/crd-parts.ts';
import {
  choiceField,
  listField,
  objectField,
  objectsField,
  textField,
  textsField,
  wholeField,
} from './schema/fields.ts';
import type { JsonSchema } from './schema/json-schema.ts';

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

/** The rollout of a policy: an item of what `nodewall rollout status -o json` prints. */
export interface RolloutProgress
  extends Required<Pick<RolloutStatus, 'progress' | 'message' | 'failed' | 'silent' | 'waiting'>>,
    Pick<RolloutDecision, 'state' | 'step'>,
    Pick<RolloutMember, 'from' | 'to'> {
  readonly policy: string;
  /** Policies of the same group have one rollout; null: it has its own. */
  readonly group: string | null;
  readonly pausedBy: RolloutDecision['pausedBy'] | null;
  /** The newest one; if it is later than `to`, it is not part of the rollout yet. */
  readonly generation: number;
  /** Null: not counted yet. */
  readonly nodes: number | null;
  readonly updated: number | null;
  readonly confirmed: number | null;
}

interface PolicyWithStatus {
  readonly name: string;
  readonly generation?: number | undefined;
  readonly rollout?: RolloutStatus | null | undefined;
}

/**
 * The rollouts of policies, in their order; without those that have none, or none that is decided
 * on yet. The last decision is that of all policies of a group.
 */
export function rolloutProgress(policies: Iterable<PolicyWithStatus>): RolloutProgress[] {
  const all = [...policies];
  const last = new Map<string, RolloutStatus>();
  for (const { rollout } of all) {
    const { key = '', serial = -1 } = rollout?.decision ?? {};
    if (rollout != null && serial > (last.get(key)?.decision?.serial ?? -1)) last.set(key, rollout);
  }
  return all.flatMap((policy) => {
    const { decision, ...rollout } = last.get(policy.rollout?.decision?.key ?? '') ?? {};
    const own = decision?.policies.find(({ name }) => name === policy.name);
    if (decision === undefined || own === undefined) return [];
    return {
      policy: policy.name,
      group: decision.key.startsWith('group ') ? decision.key.slice('group '.length) : null,
      state: decision.state,
      pausedBy: decision.pausedBy ?? null,
      step: decision.step,
      progress: rollout.progress ?? '',
      message: rollout.message ?? '',
      from: own.from,
      to: own.to,
      generation: policy.generation ?? own.to,
      nodes: rollout.nodes ?? null,
      updated: rollout.updated ?? null,
      confirmed: rollout.confirmed ?? null,
      failed: rollout.failed ?? [],
      silent: rollout.silent ?? [],
      waiting: rollout.waiting ?? [],
    };
  });
}

/** The fields that a policy and the configuration have. */
export const ROLLOUT_FIELDS: Readonly<Record<string, JsonSchema>> = {
  steps: listField(
    'How many nodes have the new version after each step; all follow at the end.',
    {
      'x-kubernetes-int-or-string': true,
      description: 'The number of nodes, from 1, or their share from 1% to 100%.',
      crd: { minimum: 1, maxLength: 4, pattern: '^([1-9][0-9]?|100)%$' },
    },
    { minItems: 1, maxItems: 20 },
  ),
  pause: wholeField('Seconds after all nodes of a step have confirmed.', [0, 604_800]),
  maxFailures: wholeField('More nodes that fail pause the rollout.', [0, 100_000]),
};

/** `spec.rollout` of a ClusterNetworkPolicy. Without defaults: those are in the configuration. */
export const ROLLOUT_SCHEMA: JsonSchema = objectField(
  'How a new version goes to the nodes; absent: to all at once.',
  [],
  {
    ...ROLLOUT_FIELDS,
    group: textField('Policies with the same group have one rollout.', { crd: OBJECT_NAME }),
  },
);

const reasons = (description: string): JsonSchema =>
  objectsField(description, null, ['node', 'reason'], {
    node: textField('Name of the Node.'),
    reason: textField('The reason.'),
  });

const member: JsonSchema = {
  ...ATOMIC_OBJECT,
  required: ['name', 'uid', 'from', 'to'],
  properties: {
    name: textField('Name of the policy.'),
    uid: textField('Its uid.'),
    from: count('The generation that nodes have before they take part; 0: none.'),
    to: count('The generation that nodes get.'),
    command: textField('The annotation nodewall.io/rollout that was acted on last.'),
  },
};

const decision: JsonSchema = objectField(
  'What the leading controller decided: all controllers read from it which node has which version.',
  ['serial', 'key', 'state', 'step', 'through', 'firsts', 'policies'],
  {
    serial: count('The decision with the highest number counts, among the policies of a group.'),
    key: textField('The uid of the policy, or its group: the order of nodes depends on it.'),
    state: choiceField('The state of the rollout.', [...ROLLOUT_STATES]),
    pausedBy: choiceField('Why it is paused.', ['Command', 'Failures']),
    step: count('The number of steps begun.'),
    through: textField('Nodes with a place up to this one take part.'),
    firsts: textsField('Further nodes that take part.'),
    policies: listField('The policies that move together.', member),
  },
);

/** `status.rollout` of a ClusterNetworkPolicy. */
export const ROLLOUT_STATUS_SCHEMA: JsonSchema = objectField(
  'The rollout of the policy over its nodes.',
  [],
  {
    progress: textField('The state in short.'),
    message: textField('The state in words.'),
    nodes: count('The number of nodes that any version applies to.'),
    updated: count('The number of nodes that have the new version.'),
    confirmed: count('The number of those that have confirmed it.'),
    failed: reasons('Nodes that failed, by name; the first 20.'),
    silent: reasons('Nodes of the steps so far that do not report, by name; the first 20.'),
    waiting: textsField('Nodes of the steps so far that have not confirmed yet, by name; the first 20.'),
    settled: textField('When all nodes of the step had confirmed (RFC 3339).'),
    tolerated: textsField('Nodes that had failed when the rollout was resumed.'),
    decision,
    versions: objectsField('The versions that nodes may have to enforce.', 3, ['generation', 'spec'], {
      generation: count('The metadata.generation of the version.'),
      spec: textField('Its spec as JSON, without rollout.'),
    }),
  },
);
