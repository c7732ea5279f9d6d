import { ROLLOUT_STATUS_SCHEMA } from './rollout.ts';
import {
  conditions,
  count,
  GRANULAR_OBJECT,
  LAST_DEFINITIONS_SCHEMA,
  READINESS,
  type ReadinessCondition,
} from './schema/crd-parts.ts';
import { choiceField, flagField, objectsField, textField, textsField } from './schema/fields.ts';
import type { JsonSchema } from './schema/json-schema.ts';

/**
 * The `status` of a ClusterNetworkPolicy, which the controller writes through the status
 * subresource.
 */

export const POLICY_PHASES = [
  /**
   * Nodes are selected, and none enforces this version yet; or it names a Tier or ClusterGroup that
   * does not exist: see `problems`.
   */
  'Pending',
  /** Some nodes enforce it. */
  'Realizing',
  /** Every selected node has it in force; some have not confirmed it yet (guarded apply). */
  'Trying',
  /** Every selected node enforces it. */
  'Realized',
  /** At least one node cannot enforce it; see `failingNodes`. */
  'Failed',
  /**
   * At least one node rolled this version back to the one confirmed last (guarded apply); see
   * `failingNodes`.
   */
  'RolledBack',
  /**
   * At least one node has its rules in force, and a Service proxy that they match nothing beside;
   * see `failingNodes`.
   */
  'NotEnforced',
  /** The policy applies to no node: it selects none, or has no rules. */
  'NoNodes',
  /**
   * The policy is left out; `enforcedGeneration` is the version that is enforced instead, if any.
   */
  'Invalid',
  /**
   * The feature gate NodeNetworkPolicy is off, or has no value and no node enforces it: nothing is
   * enforced.
   */
  'Disabled',
] as const;
export type PolicyPhase = (typeof POLICY_PHASES)[number];

export interface PolicyStatus {
  readonly phase: PolicyPhase;
  /** Generation of the version that this status describes. */
  readonly observedGeneration: number;
  /** Generation of the version that is enforced in place of an invalid one. */
  readonly enforcedGeneration?: number;
  /**
   * Spec of that version as JSON, for a controller that starts later and never saw it. Also present
   * where a version has fields that controllers of earlier versions reject; it is without them.
   * Absent if it is longer than `LONGEST_SPEC`.
   */
  readonly enforcedSpec?: string;
  /** Number of nodes that enforce the policy, and of nodes that should. */
  readonly currentNodesRealized: number;
  readonly desiredNodesRealized: number;
  /** Sorted by name; the first `MOST_FAILING_NODES`. */
  readonly failingNodes?: readonly FailingNode[];
  /** Why the policy was left out, one line per problem; the first `MOST_PROBLEMS`. */
  readonly problems?: readonly string[];
  readonly conditions: readonly PolicyCondition[];
}

export interface FailingNode {
  readonly node: string;
  /** Absent if the whole policy fails. */
  readonly rule?: string;
  readonly reason: string;
  /** It rolled the version back, and has the one confirmed last in force. Absent: it did not. */
  readonly rolledBack?: true;
  /** Its rules are in force there, and match nothing. Absent: that is not so. */
  readonly notEnforced?: true;
}

/**
 * Accepted: the policy is valid. Realized: it is enforced on every node it applies to. InForce: so,
 * also where a node has not confirmed it yet. GateSet, only where it is False: the feature gate has
 * a value. ReferencesExist, only where it is False: what it is in force with was not deleted.
 * RolledOut, only of a policy that has a rollout: every node gets this version. Ready, Reconciling,
 * Stalled: controller/status/conditions.ts.
 */
export type PolicyCondition = Condition<
  'Accepted' | 'Realized' | 'InForce' | 'GateSet' | 'ReferencesExist' | 'RolledOut' | ReadinessCondition
>;

/** A metav1.Condition. */
export interface Condition<Type extends string = string> {
  readonly type: Type;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly observedGeneration: number;
  /** When `status` last changed: ISO 8601, UTC, to the second. */
  readonly lastTransitionTime: string;
  /** One word, for programs. */
  readonly reason: string;
  /** Human-readable. */
  readonly message: string;
}

/** Maximum length of PolicyStatus.failingNodes. */
export const MOST_FAILING_NODES = 20;
/** Maximum length of PolicyStatus.problems. */
export const MOST_PROBLEMS = 20;
/** Characters. An API object may have 1.5 MB, and it also contains the spec that is invalid. */
export const LONGEST_SPEC = 512 * 1024;
/** Maximum length of a reason or a problem, in characters. */
export const LONGEST_REASON = 512;

/** Schema of the `status` of a ClusterNetworkPolicy (`PolicyStatus`). */
export const POLICY_STATUS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The state of the policy, as the controller last observed it.',
  properties: {
    phase: choiceField(
      'Pending, Realizing, Realized: no, some, all nodes that are selected enforce this version; Pending also: it names what does not exist yet, see problems. Trying: all do, some try it still (guarded apply). Failed: some node cannot enforce it. RolledBack: some node tried it and took it back. NotEnforced: on some node its rules match nothing. NoNodes: it applies to no node. ' +
        'Invalid: this version is left out. Disabled: the feature gate NodeNetworkPolicy is off, or has no value and no node enforces it.',
      [...POLICY_PHASES],
    ),
    observedGeneration: count('The metadata.generation that this status is about.'),
    enforcedGeneration: count(
      'If that version is invalid, or waits: the generation that is enforced instead.',
    ),
    enforcedSpec: textField(
      'The spec of the enforced generation, as JSON: a controller that starts enforces it.',
    ),
    currentNodesRealized: count('The number of nodes that enforce the policy.'),
    desiredNodesRealized: count('The number of nodes that must enforce the policy.'),
    failingNodes: objectsField(
      'Nodes that cannot enforce the policy, by name; the first 20.',
      20,
      ['node', 'reason'],
      {
        node: textField('Name of the Node.'),
        rule: textField('Name of the rule; absent if the whole policy fails.'),
        reason: textField('The reason that the node reported.'),
        rolledBack: flagField('True: the node tried the version, and took it back.'),
        notEnforced: flagField('True: the rules are in force there, and match nothing.'),
      },
    ),
    problems: textsField('The reasons why the policy is invalid, or waits, one line each; the first 20.', {
      maxItems: 20,
    }),
    lastDefinitions: LAST_DEFINITIONS_SCHEMA,
    rollout: ROLLOUT_STATUS_SCHEMA,
    conditions: conditions({
      Accepted: 'the policy is valid',
      Realized: 'all nodes that are selected enforce it',
      InForce: 'they do, or try it (guarded apply)',
      GateSet: 'the feature gate has a value; there only while it has none',
      ReferencesExist: 'what it is in force with exists; there only while that was deleted',
      RolledOut: 'its rollout is completed',
      ...READINESS,
    }),
  },
};
