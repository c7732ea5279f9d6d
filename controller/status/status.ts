import type { ClusterNetworkPolicySpec } from '../../apis/objects.ts';
import {
  type FailingNode,
  LONGEST_REASON,
  LONGEST_SPEC,
  MOST_FAILING_NODES,
  MOST_PROBLEMS,
  type PolicyCondition,
  type PolicyPhase,
  type PolicyStatus,
} from '../../apis/policy-status.ts';
import type { RolloutDecision } from '../../apis/rollout.ts';
import type { ReadinessCondition } from '../../apis/schema/crd-parts.ts';
import type { GateValue } from '../../apis/stream.ts';
import type { WrittenStatus } from './antrea-status.ts';
import { type ConditionState, readinessConditions, timed } from './conditions.ts';

/** The facts from which a policy's status is computed. */
export interface PolicyFacts {
  /** The generation in the API. */
  readonly generation: number;
  /** The reasons why that generation is not enforced, one line each; empty if it is valid. */
  readonly problems: readonly string[];
  /** Whether all of these end when objects that the policy names are created. */
  readonly isWaiting: boolean;
  /**
   * The generation in force; null if there is none. If it differs from `generation`, it is the last
   * valid version.
   */
  readonly enforcedGeneration: number | null;
  /** Its spec; null if there is none. */
  readonly enforcedSpec: object | null;
  /** The feature gate NodeNetworkPolicy. */
  readonly enabled: GateValue;
  /** The progress of the version in force. */
  readonly progress: Progress;
  /** Null: the policy has no rollout. */
  readonly rollout: RolloutDecision | null;
  /** Deleted objects that it is in force with, in words; null: none. */
  readonly deleted: string | null;
}

export interface Progress {
  readonly desired: number;
  readonly current: number;
  /** Nodes that have it in force, and have not confirmed it yet (guarded apply). */
  readonly tried: number;
  /** Sorted by node; several for a node on which several rules fail. */
  readonly failing: readonly FailingNode[];
  /** Those that try the version while probes fail, sorted; none of them is in `failing`. */
  readonly trying: readonly FailingNode[];
  readonly hasRules: boolean;
}

export const NO_PROGRESS: Progress = {
  desired: 0,
  current: 0,
  tried: 0,
  failing: [],
  trying: [],
  hasRules: false,
};

/**
 * Computes a status. `before` is the current status: unchanged conditions keep their times. The
 * same facts give an equal status at any time.
 */
export function statusOf(
  facts: PolicyFacts,
  before: Pick<WrittenStatus, 'conditions'> | null,
  now: Date,
): PolicyStatus {
  const { generation, problems, enforcedGeneration, enforcedSpec, enabled, progress } = facts;
  const isInvalid = problems.length > 0;
  const phase = phaseOf(facts);
  const { desired, current, failing, trying } = isOff(facts) ? NO_PROGRESS : progress;
  const acceptance = accepted(facts);
  const realization = realized(facts, phase);
  const conditions: ConditionState<PolicyCondition['type']>[] = [
    { type: 'Accepted', ...acceptance },
    { type: 'Realized', ...realization },
    { type: 'InForce', ...inForce(facts, phase) },
    ...(enabled === 'unset' ? [UNSET] : []),
    ...(facts.deleted === null ? [] : [deleted(facts.deleted)]),
  ];
  const rollout = facts.rollout === null ? null : rolledOut(facts.rollout);
  if (rollout !== null) conditions.push({ type: 'RolledOut', ...rollout });
  conditions.push(...readiness(phase, facts.rollout, [acceptance, realization, rollout]));
  const older = enforcedSpec === null ? null : specForOlder(enforcedSpec);
  const isForOlder = older !== enforcedSpec;
  const spec = (isInvalid || isForOlder) && older !== null ? JSON.stringify(older) : null;
  const shown = oneEach([...failing, ...trying]).slice(0, MOST_FAILING_NODES);
  return {
    phase,
    observedGeneration: generation,
    ...(isInvalid && enforcedGeneration !== null ? { enforcedGeneration } : {}),
    ...(spec !== null && spec.length <= LONGEST_SPEC ? { enforcedSpec: spec } : {}),
    currentNodesRealized: current,
    desiredNodesRealized: desired,
    ...(shown.length > 0 ? { failingNodes: shown } : {}),
    ...(isInvalid ? { problems: problems.slice(0, MOST_PROBLEMS).map(short) } : {}),
    conditions: timed(conditions, generation, before?.conditions ?? [], now),
  };
}

/** Whether fewer nodes enforce the same version, or its failures are no longer reported. */
export function isTakenBack(before: WrittenStatus, now: WrittenStatus): boolean {
  // Counts of different versions, or of none, are not comparable.
  const isCounted = ({ phase }: WrittenStatus): boolean =>
    ['Pending', 'Realizing', 'Trying', 'Realized', 'Failed', 'RolledBack', 'NotEnforced'].includes(phase);
  if (!isCounted(before) || !isCounted(now)) return false;
  if (before.observedGeneration !== now.observedGeneration) return false;
  if (before.desiredNodesRealized !== now.desiredNodesRealized) return false;
  const isLess = now.currentNodesRealized < before.currentNodesRealized;
  const isBad = ({ phase }: WrittenStatus): boolean =>
    phase === 'Failed' || phase === 'RolledBack' || phase === 'NotEnforced';
  const isQuieter = isBad(before) && !isBad(now) && now.phase !== 'Realized';
  return isLess || isQuieter;
}

/**
 * The spec without fields that controllers of version 0.1 reject: one that takes over without its
 * CRDs enforces the spec in the status, so that the policy's rules stay, and names the fields. The
 * same object if there are none. No generation is written beside it: that of the policy would mean
 * to such a controller that it enforces the policy as it is.
 */
function specForOlder(spec: Partial<ClusterNetworkPolicySpec>): object {
  const { established, ...older } = spec;
  return established === undefined ? spec : older;
}

const UNSET: ConditionState<'GateSet'> = {
  type: 'GateSet',
  status: 'False',
  reason: 'NoValue',
  message:
    'The feature gate NodeNetworkPolicy has no value: nodes that enforce go on, new ones enforce nothing. Set it: kubectl apply -f deploy/gate/on.yaml',
};

/** While the gate is unset, the nodes that had it on go on. */
function isOff({ enabled, progress: { current, failing } }: PolicyFacts): boolean {
  return enabled === 'unset' ? current === 0 && failing.length === 0 : !enabled;
}

function phaseOf(facts: PolicyFacts): PolicyPhase {
  const { desired, current, tried, failing } = facts.progress;
  if (facts.problems.length > 0) return facts.isWaiting ? 'Pending' : 'Invalid';
  if (isOff(facts)) return 'Disabled';
  if (desired === 0) return 'NoNodes';
  if (failing.some(({ rolledBack }) => rolledBack)) return 'RolledBack';
  if (failing.length > 0) return failing.every(({ notEnforced }) => notEnforced) ? 'NotEnforced' : 'Failed';
  if (current === desired) return 'Realized';
  if (current + tried === desired) return 'Trying';
  return current === 0 ? 'Pending' : 'Realizing';
}

const NEVER_VALID = 'No version of the policy has been valid.';
const OFF = 'The feature gate NodeNetworkPolicy is off.';
const NOWHERE = 'The feature gate NodeNetworkPolicy has no value, and no node enforces the policy.';

type Said = Pick<PolicyCondition, 'status' | 'reason' | 'message'>;

function accepted(facts: PolicyFacts): Said {
  const { problems, enforcedGeneration, generation, isWaiting } = facts;
  if (problems.length === 0) return { status: 'True', reason: 'Valid', message: 'The policy is valid.' };
  const [first = '', ...rest] = problems;
  const more = rest.length === 0 ? '' : ` (and ${rest.length} more)`;
  const what = isWaiting ? 'is not enforced yet' : 'is left out';
  const why = `Generation ${generation} ${what}: ${short(first)}${more}`;
  const reason = isWaiting ? 'Waiting' : 'Invalid';
  if (enforcedGeneration === null || isOff(facts)) return { status: 'False', reason, message: why };
  const stays =
    enforcedGeneration === generation
      ? 'It stays enforced as it was.'
      : `Generation ${enforcedGeneration} stays enforced.`;
  return { status: 'False', reason: `${reason}LastValidEnforced`, message: `${why}. ${stays}` };
}

function realized(
  { enforcedGeneration, enabled, progress, problems, isWaiting }: PolicyFacts,
  phase: PolicyPhase,
): Said {
  const { desired, current, failing, trying, hasRules } = progress;
  const [first] = trying;
  const others = trying.length < 2 ? '' : ` and ${trying.length - 1} more`;
  const tried = first === undefined ? '' : `; tried on ${first.node}${others}: ${short(first.reason)}`;
  const enforced = `${current} of ${desired} nodes enforce the policy`;
  const count = `${enforced}${tried}`;
  const failed = new Set(failing.map(({ node }) => node)).size;
  if (problems.length > 0) {
    const nothing = isWaiting ? 'No version of the policy is enforced yet.' : NEVER_VALID;
    const message = enforcedGeneration === null ? nothing : `Generation ${enforcedGeneration}: ${count}.`;
    return { status: 'False', reason: isWaiting ? 'Waiting' : 'Invalid', message };
  }
  switch (phase) {
    case 'Disabled':
      return { status: 'False', reason: 'Disabled', message: enabled === 'unset' ? NOWHERE : OFF };
    case 'Invalid':
      return { status: 'False', reason: phase, message: NEVER_VALID };
    case 'NoNodes': {
      const message = hasRules ? 'appliedTo selects no existing node.' : 'The policy has no rules.';
      return { status: 'True', reason: 'NoNodes', message };
    }
    case 'Failed':
      return { status: 'False', reason: 'NodesFailed', message: `${count}; ${failed} failed.` };
    case 'RolledBack': {
      const nodes = new Set(failing.filter(({ rolledBack }) => rolledBack).map(({ node }) => node)).size;
      return { status: 'False', reason: 'RolledBack', message: `${count}; ${nodes} rolled it back.` };
    }
    case 'NotEnforced':
      return { status: 'False', reason: phase, message: `${count}; its rules match nothing on ${failed}.` };
    case 'Realized':
      return { status: 'True', reason: 'Realized', message: `${count}.` };
    case 'Trying':
      return { status: 'False', reason: phase, message: `${enforced}, all others try it${tried}.` };
    case 'Pending':
    case 'Realizing':
      return { status: 'False', reason: phase, message: `${count}.` };
  }
}

/** Also on nodes that have not confirmed it yet: for programs that wait for the rules alone. */
function inForce(
  { progress: { desired, current, tried }, problems, isWaiting }: PolicyFacts,
  phase: PolicyPhase,
): Said {
  if (phase === 'Disabled' || problems.length > 0)
    return {
      status: 'False',
      reason: isWaiting ? 'Waiting' : phase,
      message: 'See the condition Realized or Accepted.',
    };
  const message = `In force on ${current + tried} of ${desired} nodes, confirmed on ${current}.`;
  const isEverywhere = current + tried === desired;
  return { status: isEverywhere ? 'True' : 'False', reason: isEverywhere ? 'InForce' : phase, message };
}

function deleted(text: string): ConditionState<'ReferencesExist'> {
  const message = `${short(text[0]?.toUpperCase() + text.slice(1))}.`;
  return { type: 'ReferencesExist', status: 'False', reason: 'Deleted', message };
}

function rolledOut({ state, pausedBy, step }: RolloutDecision): Said {
  switch (state) {
    case 'Completed':
      return { status: 'True', reason: state, message: 'All nodes have this version.' };
    case 'Undone': {
      const message = 'The last completed version is in force everywhere, until the spec changes.';
      return { status: 'False', reason: state, message };
    }
    case 'Progressing':
      return { status: 'False', reason: state, message: `Step ${step} is in progress.` };
    case 'Paused': {
      const why = pausedBy === 'Failures' ? 'too many nodes failed' : 'the annotation says so';
      return { status: 'False', reason: `PausedBy${pausedBy}`, message: `Paused at step ${step}: ${why}.` };
    }
  }
}

const READINESS_OF: Readonly<Record<PolicyPhase, ReadinessCondition>> = {
  Pending: 'Reconciling',
  Realizing: 'Reconciling',
  Trying: 'Reconciling',
  Realized: 'Ready',
  NoNodes: 'Ready',
  Failed: 'Stalled',
  RolledBack: 'Stalled',
  NotEnforced: 'Stalled',
  Invalid: 'Stalled',
  Disabled: 'Stalled',
};

/**
 * A rollout in progress, or one that somebody holds, is not the last word of what some nodes
 * already say; one that failed or was undone is.
 * @param said why: the first that does not hold, else the second
 */
function readiness(
  phase: PolicyPhase,
  rollout: RolloutDecision | null,
  said: readonly [accepted: Said, realized: Said, rolledOut: Said | null],
): ConditionState<ReadinessCondition>[] {
  const [acceptance, realization, rolled] = said;
  if (acceptance.status !== 'True') return readinessConditions(READINESS_OF[phase], acceptance);
  const isEnded = rollout?.state === 'Undone' || rollout?.pausedBy === 'Failures';
  if (rolled !== null && isEnded) return readinessConditions('Stalled', rolled);
  const own = READINESS_OF[phase];
  if (rolled === null || rolled.status === 'True' || own === 'Stalled')
    return readinessConditions(own, realization);
  return readinessConditions('Reconciling', rolled);
}

/**
 * The first failure of each node: the number of failing nodes is more useful than that of failing
 * rules.
 */
function oneEach(failing: readonly FailingNode[]): FailingNode[] {
  const nodes = new Set<string>();
  return failing
    .filter(({ node }) => !nodes.has(node) && nodes.add(node))
    .map(({ reason, ...rest }) => ({ ...rest, reason: short(reason) }));
}

function short(text: string): string {
  return text.length <= LONGEST_REASON ? text : `${text.slice(0, LONGEST_REASON - 1)}…`;
}
