import type { ConntrackEntry } from 'nftables-napi';
import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { isDenial } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { RuleAction } from '../../apis/objects.ts';
import { resolvedPeers } from '../../apis/resolved-peers.ts';
import { diffMembers } from '../../lib/net/packed-keys.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import { decidingRule, evaluator } from '../observe/explain.ts';
import { ruleMatches, spoofedTest } from '../observe/flow-match.ts';
import { indexedRules } from '../observe/indexed-rules.ts';
import type { KnownFlow } from '../observe/known-flow.ts';
import { connectionFlows } from './connection-flows.ts';
import { type NodeFacts, OwnAddresses } from './node-facts.ts';

/** A connection that the rules in force deny. */
export interface Denial {
  readonly entry: ConntrackEntry;
  readonly flow: Omit<KnownFlow, 'group'>;
  /** The Drop or Reject rule that decides. */
  readonly rule: CompiledRule;
}

interface JudgeOptions {
  readonly state: NodeState;
  readonly config: Config;
  readonly facts: NodeFacts;
  /** Whether only rules of policies with `established: Recheck` end connections. */
  readonly onlyRecheck: boolean;
  /** As in indexedRules; for tests. */
  readonly short?: number;
}

/** Null: the connection goes on. */
export type ConnectionJudge = (entry: ConntrackEntry) => Denial | null;

/**
 * Returns a function that judges tracked connections as `explain` judges flows. A connection is
 * denied if a rule that may end connections denies it by every interface that it may have used, and
 * whichever names (fqdn peers) of Allow and Pass rules stood for its address when it began.
 */
export function connectionJudge(options: JudgeOptions): ConnectionJudge {
  const { state, config, facts, onlyRecheck, short } = options;
  const ruleThatDenies = (of: NodeState): ((flow: KnownFlow) => CompiledRule | null) => {
    const evaluate = evaluator(of, config, indexedRules(ruleMatches(of, config), of, config, short));
    return (flow) => {
      const rule = decidingRule(evaluate(flow, null));
      return rule !== null && isDenial(rule.action) && (!onlyRecheck || isRechecked(rule)) ? rule : null;
    };
  };
  // A Pass hides the rules behind it, so those are asked without it too.
  const anyAllowed = withAnyName(state, 'Allow');
  const anyPassed = withAnyName(anyAllowed, 'Pass');
  const cases = [...new Set([state, anyAllowed, anyPassed])].map(ruleThatDenies);
  const ruleThatEnds = (flow: KnownFlow): CompiledRule | null => {
    let first: CompiledRule | null = null;
    for (const denier of cases) {
      const rule = denier(flow);
      if (rule === null) return null;
      first ??= rule;
    }
    return first;
  };
  const flowsOf = connectionFlows({
    facts,
    config,
    declared: new OwnAddresses(state.nodeAddresses),
    named: namedGroups(state, config),
  });
  const isSpoofed = spoofedTest(state, config);
  return (entry) => {
    for (const { flow, groups } of flowsOf(entry)) {
      let first: CompiledRule | null = null;
      // With a Node's address as source it can't have come in by an interface of pods.
      const possible = groups.filter((group) => !isSpoofed({ ...flow, group }));
      const isDenied = possible.every((group) => {
        const rule = ruleThatEnds({ ...flow, group });
        first ??= rule;
        return rule !== null;
      });
      if (isDenied && first !== null) return { entry, flow, rule: first };
    }
    return null;
  };
}

/** Whether rules of the state may end connections without a command. */
export function hasRecheck({ rules }: NodeState): boolean {
  return rules.some((rule) => rule.mode === 'Enforce' && isDenial(rule.action) && isRechecked(rule));
}

function isRechecked({ source }: CompiledRule): boolean {
  return source.established === 'Recheck';
}

/**
 * The state in which the names of rules with this action stand for every address; the same object
 * if no such rule has names. A name may not be resolved yet, and its addresses change without a
 * change of rules.
 */
function withAnyName(state: NodeState, action: RuleAction): NodeState {
  const isNamed = ({ action: of, peers }: CompiledRule): boolean =>
    of === action &&
    peers.some(
      (peer) => peer.kind === 'addresses' && (state.addressSets.get(peer.set)?.names.length ?? 0) > 0,
    );
  if (!state.rules.some(isNamed)) return state;
  const rules = state.rules.map((rule) =>
    isNamed(rule) ? { ...rule, peers: [{ kind: 'any' } as const] } : rule,
  );
  return { ...state, rules };
}

function namedGroups(state: NodeState, config: Config): ReadonlySet<number> {
  const named = new Set<number>();
  for (const rule of state.rules) {
    for (const peer of resolvedPeers(rule, state, config)) {
      if (peer.kind === 'interfaces') for (const group of peer.groups) named.add(group);
    }
  }
  return named;
}

/**
 * Whether a state may deny what the state before did not. It may not if nothing but members of
 * AddressSets changed, and addresses were only added where Allow rules name them, or removed where
 * Drop and Reject rules of policies with Recheck do. So a new pod that a rule allows, the most
 * frequent change, costs nothing.
 */
export function mayDeny(before: NodeState, now: NodeState): boolean {
  if (!sameItems(before.rules, now.rules)) return true;
  const sameServices = [...now.serviceSets].every(([id, set]) => before.serviceSets.get(id) === set);
  const facts = (state: NodeState): string => {
    const { nodeAddresses, apiServerPorts, allNodes, controllers, controlPlane, platform } = state;
    return JSON.stringify([nodeAddresses, apiServerPorts, allNodes, controllers, controlPlane, platform]);
  };
  if (!sameServices || facts(before) !== facts(now)) return true;
  // Exemption and failsafe list allow.
  if (hasChanged(before.localPods, now.localPods, { mayGain: true, mayLose: false })) return true;
  const changed = [...now.addressSets].filter(([id, set]) => before.addressSets.get(id) !== set);
  if (changed.length === 0) return false;
  const uses = usesOf(now);
  return changed.some(([id, set]) => hasChanged(before.addressSets.get(id), set, uses(id)));
}

/** Which changes of a set cannot deny more. */
interface Harmless {
  readonly mayGain: boolean;
  readonly mayLose: boolean;
}

function usesOf({ rules, allNodes, controllers }: NodeState): (id: string) => Harmless {
  const gains = new Set<string>();
  const losses = new Set([allNodes, controllers]);
  for (const rule of rules) {
    for (const peer of rule.peers) {
      if (peer.kind !== 'addresses' || rule.mode === 'Audit') continue;
      // The baseline tier may deny packets that a Pass takes from the rules behind it.
      if (rule.action !== 'Allow') gains.add(peer.set);
      // A policy with Recheck may deny now packets that another policy denied before.
      const ends = isDenial(rule.action);
      if (!ends || rule.source.established !== 'Recheck') losses.add(peer.set);
    }
  }
  return (id) => ({ mayGain: !gains.has(id), mayLose: !losses.has(id) });
}

function hasChanged(
  before: AddressSet | undefined,
  now: AddressSet | undefined,
  { mayGain, mayLose }: Harmless,
): boolean {
  if (before === now) return false;
  if (before === undefined || now === undefined) return true;
  return (['v4', 'v6'] as const).some((family) => {
    const [was, is] = [before.members[family], now.members[family]];
    if (was === is) return false;
    if (!sameItems(was.prefixes, is.prefixes)) return true;
    const { added, removed } = diffMembers(was, is);
    return (added.length > 0 && !mayGain) || (removed.length > 0 && !mayLose);
  });
}
