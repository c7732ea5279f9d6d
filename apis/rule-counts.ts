/** The rules in force on a node with their counters, as its agent answers. */
import type { CompiledRule } from './compiled.ts';
import { MOST_PLATFORM_ENTRIES } from './platform.ts';
import { COUNT, checked, list, nullable, type Of, object, oneOf, TIME, text } from './schema/shape.ts';

export type Count = Of<typeof COUNTER>;
const TOTALS = { packets: COUNT, bytes: COUNT, lastHit: nullable(TIME) };
const COUNTER = object(TOTALS);

/** A rule in force, and its counters. */
export type CountedRule = Of<typeof COUNTED_RULE>;
const COUNTED_RULE = object(
  {
    id: text(),
    direction: oneOf('ingress', 'egress'),
    tier: text(),
    policy: text(),
    apiGroup: text(),
    rule: text(),
    ruleIndex: COUNT,
    action: oneOf('Allow', 'Drop', 'Reject', 'Pass'),
    mode: oneOf('Enforce', 'Audit'),
    traffic: oneOf('Host', 'NodePort'),
    /** Since when it is counted (ISO 8601); null: it is not yet. */
    since: nullable(TIME),
    ...TOTALS,
  },
  {
    /** For rules that allow by addresses; absent: it is another. */
    width: object({ v4: nullable(COUNT), v6: nullable(COUNT), ports: nullable(COUNT) }),
  },
);

/** The rules in force on a node, in the order of evaluation. */
export type RuleCounts = Of<typeof RULE_COUNTS>;
const RULE_COUNTS = object(
  {
    node: text(),
    rules: list(COUNTED_RULE),
    /** Packets of anti-spoofing. */
    spoofed: COUNTER,
    /** Why the counters may be older than now; null: they are of now. */
    remark: nullable(text()),
  },
  {
    /** The platform's entries of the failsafe list (PlatformRow); absent: they are not known. */
    platform: list(object({ entry: text(), reason: text() }, { addresses: COUNT }), MOST_PLATFORM_ENTRIES),
  },
);

/** A rule with these counters; absent: no packet matched it. */
export function countedRule(
  { id, source, tier, action, mode, traffic }: CompiledRule,
  { packets, bytes, lastHit }: Count = NO_COUNT,
): Omit<CountedRule, 'since' | 'width'> {
  const { direction, policy, apiGroup, rule, ruleIndex } = source;
  const of = { id, direction, tier, policy, apiGroup, rule, ruleIndex, action, mode, traffic };
  return { ...of, packets, bytes, lastHit };
}

export const NO_COUNT: Count = { packets: 0, bytes: 0, lastHit: null };

/** Reads the answer of another node, which may be compromised. Throws InvalidError. */
export function toRuleCounts(answer: unknown): RuleCounts {
  return checked(RULE_COUNTS, answer, 'its answer is not one about counters');
}
