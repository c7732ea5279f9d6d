import {
  MOST_EXCEPTIONS,
  type NodeRanges,
  OTHER_REASONS,
  type OverviewPolicy,
  type PolicyException,
  toRanges,
} from '../../apis/console.ts';
import type { ApiGroup, ClusterNetworkPolicySpec } from '../../apis/objects.ts';
import type { PolicyCondition, PolicyPhase, PolicyStatus } from '../../apis/policy-status.ts';
import { policyMessage } from '../../apis/status-problems.ts';
import { tierName } from '../compile/policy-rules.ts';
import type { VersionState } from '../status/realization.ts';

/** Facts about one policy. */
export interface OverviewPolicyFacts {
  readonly apiGroup: ApiGroup;
  readonly name: string;
  /** The spec in force; null: none was ever valid. */
  readonly spec: ClusterNetworkPolicySpec | null;
  /** The newest generation, and the one in force; null: none is. */
  readonly generation: number;
  readonly inForce: number | null;
  readonly versions: readonly VersionState[];
  /** Null: no controller writes one, or nothing is known yet. */
  readonly status: PolicyStatus | null;
  readonly changed: OverviewPolicy['changed'];
  readonly isEnabled: boolean;
}

/** Where a policy is in force, and where it is not. */
interface Cells {
  readonly enforcedGeneration: number | null;
  readonly nodes: NodeRanges;
  readonly exceptions: readonly Omit<PolicyException, 'since'>[];
  readonly desired: number;
  readonly failing: number;
}

/**
 * A policy as the overview has it. Costs a step for each node that it applies to.
 *
 * @param indexes of the overview's nodes, by name
 * @param before the same policy in the overview before; null: there was none
 * @param now ISO 8601
 */
export function overviewPolicy(
  facts: OverviewPolicyFacts,
  indexes: ReadonlyMap<string, number>,
  before: OverviewPolicy | null,
  now: string,
): OverviewPolicy {
  const { apiGroup, name, spec, generation, status, changed } = facts;
  const { enforcedGeneration, nodes, exceptions: found, desired, failing } = cellsOf(facts, indexes);
  const exceptions = found.map((one) => ({ ...one, since: sinceOf(one, before) ?? now }));
  const phase = status?.phase ?? phaseOf(facts, { desired, failing, exceptions });
  return {
    apiGroup,
    name,
    tier: tierName(spec?.tier),
    priority: spec?.priority ?? 0,
    mode: spec?.mode ?? 'Enforce',
    traffic: spec?.traffic ?? 'Host',
    phase,
    message: status === null ? `${desired - failing} of ${desired} nodes enforce it` : policyMessage(status),
    generation,
    enforcedGeneration,
    ...inForceSince(
      { enforcedGeneration, exceptions, desired },
      { before, now, realized: realizedAt(facts) },
    ),
    changed,
    nodes,
    exceptions,
  };
}

function cellsOf({ versions, inForce }: OverviewPolicyFacts, indexes: ReadonlyMap<string, number>): Cells {
  const generations = versions.map(({ generation }) => generation);
  const main = inForce !== null && generations.includes(inForce) ? inForce : (generations.at(-1) ?? inForce);
  const all: number[] = [];
  const groups = new Map<string, { of: Omit<PolicyException, 'since' | 'nodes'>; nodes: number[] }>();
  let failing = 0;
  const except = (of: Omit<PolicyException, 'since' | 'nodes'>, node: number): void => {
    const key = JSON.stringify(of);
    const known = groups.get(key);
    const rest = { ...of, reason: OTHER_REASONS, rule: null };
    if (known !== undefined) known.nodes.push(node);
    else if (groups.size < MOST_EXCEPTIONS || of.reason === OTHER_REASONS)
      groups.set(key, { of, nodes: [node] });
    else except(rest, node);
  };
  for (const { generation, nodes, exceptions } of versions) {
    const excepted = new Map(exceptions.map((one) => [one.node, one]));
    for (const name of nodes) {
      const node = indexes.get(name);
      if (node === undefined) continue;
      all.push(node);
      const one = excepted.get(name);
      const isInForce = one === undefined || one.state === 'Trying' || one.state === 'Partly';
      if (!isInForce) failing++;
      const { state = 'OtherVersion', reason = '', rule = null } = one ?? {};
      if (one !== undefined || generation !== main)
        except({ state, reason, rule, generation: isInForce ? generation : null }, node);
    }
  }
  const inOrder = (list: number[]): NodeRanges => toRanges(list.sort((a, b) => a - b));
  return {
    enforcedGeneration: main,
    nodes: inOrder(all),
    exceptions: [...groups.values()].map(({ of, nodes }) => ({ ...of, nodes: inOrder(nodes) })),
    desired: all.length,
    failing,
  };
}

function sinceOf(
  { state, reason, rule, generation }: Omit<PolicyException, 'since'>,
  before: OverviewPolicy | null,
): string | undefined {
  const isSame = (one: PolicyException): boolean =>
    one.state === state && one.reason === reason && one.rule === rule && one.generation === generation;
  return before?.exceptions.find(isSame)?.since;
}

/** Null where the last look at the policy had it in force everywhere, at that generation. */
function inForceSince(
  {
    enforcedGeneration,
    exceptions,
    desired,
  }: Pick<OverviewPolicy, 'enforcedGeneration' | 'exceptions'> & { readonly desired: number },
  {
    before,
    now,
    realized,
  }: { readonly before: OverviewPolicy | null; readonly now: string; readonly realized: string | null },
): Pick<OverviewPolicy, 'since' | 'sinceAtLeast'> {
  if (enforcedGeneration === null || exceptions.length > 0 || desired === 0)
    return { since: null, sinceAtLeast: null };
  if (before === null)
    return realized === null ? { since: null, sinceAtLeast: now } : { since: realized, sinceAtLeast: null };
  const isSame = before.enforcedGeneration === enforcedGeneration && before.exceptions.length === 0;
  const { since, sinceAtLeast } = before;
  return isSame && (since !== null || sinceAtLeast !== null)
    ? { since, sinceAtLeast }
    : { since: now, sinceAtLeast: null };
}

/** Since when the status says that all nodes enforce the version in force; null: it does not. */
function realizedAt({ status, inForce }: OverviewPolicyFacts): string | null {
  const isIt = ({ type, status: value, observedGeneration }: PolicyCondition): boolean =>
    type === 'Realized' && value === 'True' && observedGeneration === inForce;
  return status?.conditions.find(isIt)?.lastTransitionTime ?? null;
}

/**
 * The phase of a policy whose status another one writes (crd.antrea.io), as that of nodewall.io is.
 */
function phaseOf(
  { isEnabled, spec }: OverviewPolicyFacts,
  {
    desired,
    failing,
    exceptions,
  }: { readonly desired: number; readonly failing: number; readonly exceptions: readonly PolicyException[] },
): PolicyPhase {
  if (!isEnabled) return 'Disabled';
  if (spec === null) return 'Pending';
  if (desired === 0) return 'NoNodes';
  const states = new Set(exceptions.map(({ state }) => state));
  if (states.has('RolledBack')) return 'RolledBack';
  if (states.has('Failed')) return 'Failed';
  if (states.has('NotEnforced')) return 'NotEnforced';
  if (failing === 0) return 'Realized';
  if (states.size === 1 && states.has('Trying')) return 'Trying';
  return failing === desired ? 'Pending' : 'Realizing';
}

/** By name, the policies' positions in the order of evaluation. */
export function positions(
  policies: readonly { readonly apiGroup: string; readonly name: string }[],
): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const [i, { apiGroup, name }] of policies.entries()) {
    const key = `${apiGroup}/${name}`;
    if (!found.has(key)) found.set(key, i);
  }
  return found;
}
