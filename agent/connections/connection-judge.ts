import type { ConntrackEntry } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { RuleAction } from '../../apis/objects.ts';
import { resolvedPeers } from '../../apis/resolved-peers.ts';
import { spoofedTest } from '../observe/exemption.ts';
import { decidingRule, evaluator } from '../observe/explain.ts';
import type { KnownFlow } from '../observe/known-flow.ts';
import { indexedRules } from '../observe/rule-lookup.ts';
import { ruleMatches } from '../observe/rule-match.ts';
import { connectionFlows } from './connection-flows.ts';
import { type NodeFacts, OwnAddresses } from './node-facts.ts';

/** A connection that the rules in force deny. */
export interface Denial {
  readonly entry: ConntrackEntry;
  readonly flow: Omit<KnownFlow, 'group'>;
  /** The Drop or Reject rule that decides. */
  readonly rule: CompiledRule;
}

export interface JudgeOptions {
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
      return rule !== null && denies(rule) && (!onlyRecheck || isRechecked(rule)) ? rule : null;
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
  return rules.some((rule) => rule.mode === 'Enforce' && denies(rule) && isRechecked(rule));
}

function denies({ action }: Pick<CompiledRule, 'action'>): boolean {
  return action === 'Drop' || action === 'Reject';
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
