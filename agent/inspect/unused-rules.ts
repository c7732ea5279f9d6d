import { type CountedRule, type RuleCounts, ruleKey } from './rule-counts.ts';

/** A rule that no packet matched on any of the nodes where it is in force. */
export interface UnusedRule
  extends Pick<
    CountedRule,
    'direction' | 'tier' | 'policy' | 'apiGroup' | 'rule' | 'action' | 'mode' | 'traffic'
  > {
  readonly nodes: readonly string[];
  /** On any of them (ISO 8601); null: never. */
  readonly lastHit: string | null;
  /** Since when all of them count it (ISO 8601); null: not all do yet. */
  readonly since: string | null;
}

export interface UnusedRules {
  readonly rules: readonly UnusedRule[];
  /** Those without a hit that are counted for a shorter time than is asked for. */
  readonly tooYoung: readonly UnusedRule[];
  /** Rules in force on the nodes. */
  readonly all: number;
}

/**
 * The rules that no packet matched on any node: since they are counted, or since `from`
 * (milliseconds since 1970). In the order of evaluation on the first node that has them.
 */
export function unusedRules(counts: Iterable<RuleCounts>, from: number | null): UnusedRules {
  const found = new Map<string, Together>();
  for (const { node, rules } of counts)
    for (const rule of rules) {
      const key = ruleKey(rule);
      const known = found.get(key);
      if (known === undefined) found.set(key, ofOne(rule, node));
      else add(known, rule, node);
    }
  const unhit = [...found.values()].filter(({ lastHit }) => !isAfter(lastHit, from));
  // null: a rule that is not counted yet says nothing.
  const isOld = ({ since }: UnusedRule): boolean =>
    since !== null && (from === null || Date.parse(since) <= from);
  return {
    rules: unhit.filter(isOld),
    tooYoung: unhit.filter((rule) => !isOld(rule)),
    all: found.size,
  };
}

interface Together extends UnusedRule {
  readonly nodes: string[];
  lastHit: string | null;
  since: string | null;
}

function ofOne(counted: CountedRule, node: string): Together {
  const { direction, tier, policy, apiGroup, rule, action, mode, traffic, since } = counted;
  const same = { direction, tier, policy, apiGroup, rule, action, mode, traffic };
  return { ...same, nodes: [node], lastHit: hitOf(counted), since };
}

function add(known: Together, counted: CountedRule, node: string): void {
  known.nodes.push(node);
  known.lastHit = later(known.lastHit, hitOf(counted));
  known.since = known.since === null || counted.since === null ? null : later(known.since, counted.since);
}

/** A counter of packets has a last hit; of one that was not saved in time that is unknown. */
function hitOf({ packets, lastHit, since }: CountedRule): string | null {
  return packets > 0 ? (lastHit ?? since) : null;
}

function later(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b;
  return Date.parse(a) > Date.parse(b) ? a : b;
}

function isAfter(lastHit: string | null, from: number | null): boolean {
  return lastHit !== null && (from === null || Date.parse(lastHit) > from);
}
