import type { ConntrackEntry } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { evaluator } from '../observe/explain.ts';
import type { KnownFlow } from '../observe/known-flow.ts';
import { indexedRules } from '../observe/rule-lookup.ts';
import { ruleMatches } from '../observe/rule-match.ts';
import { resolvedPeers } from '../render/rule-peers.ts';
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
 * Returns a function that judges tracked connections as `explain` judges flows. A connection is denied
 * if, by every interface that it may have used, a rule denies it that may end connections.
 */
export function connectionJudge(options: JudgeOptions): ConnectionJudge {
  const { state, config, facts, onlyRecheck, short } = options;
  const evaluate = evaluator(state, config, indexedRules(ruleMatches(state, config), state, config, short));
  const flowsOf = connectionFlows({
    facts,
    config,
    declared: new OwnAddresses(state.nodeAddresses),
    named: namedGroups(state, config),
  });
  const ruleThatEnds = (flow: KnownFlow): CompiledRule | null => {
    const result = evaluate(flow, null);
    const rule = 'exemption' in result ? null : result.decided;
    return rule !== null && denies(rule) && (!onlyRecheck || isRechecked(rule)) ? rule : null;
  };
  return (entry) => {
    for (const { flow, groups } of flowsOf(entry)) {
      let first: CompiledRule | null = null;
      const isDenied = groups.every((group) => {
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

function denies({ action }: CompiledRule): boolean {
  return action === 'Drop' || action === 'Reject';
}

function isRechecked({ source }: CompiledRule): boolean {
  return source.established === 'Recheck';
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
