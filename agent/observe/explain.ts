import { BASELINE_PRIORITY } from '../../apis/baseline.ts';
import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { Answer, Considered, Explanation, Flow } from '../../apis/flow.ts';
import type { Address } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { failsafeList, isSkippable, peerSet } from '../render/failsafe.ts';
import { exemptionOf, spoofedTest } from './exemption.ts';
import { flowReader, type KnownFlow, PROTOCOL_NUMBERS } from './known-flow.ts';
import { mismatchOf, type RuleMatch, ruleMatches } from './rule-match.ts';

/**
 * Explains the verdict for one connection, from the NodeState that is also rendered (with names
 * resolved). Evaluates the rules in order, as docs/semantics.md section 2 says, independent of the
 * rule index. Cost: the rules of the direction, and one look-up per address set and flow. Throws if
 * a rule names an unknown set or interface group.
 */
export function explain(state: NodeState, config: Config): Explainer {
  const rules = Map.groupBy(ruleMatches(state, config), ({ rule }) =>
    ruleList(rule.source.direction, rule.traffic),
  );
  const toKnown = flowReader(state, config);
  const isSpoofed = spoofedTest(state, config);
  const failsafe = {
    ingress: failsafeList(config.failsafe.ingress, state).map((entry) => failsafeMatch(entry, state)),
    egress: failsafeList(config.failsafe.egress, state).map((entry) => failsafeMatch(entry, state)),
  };
  return (given, { considered: wanted = false } = {}) => {
    const flow = toKnown(given);
    const none = { ...NO_RULE, ...(wanted ? { considered: [] } : {}) };
    if (isSpoofed(flow)) return { ...none, verdict: 'Drop', reason: 'spoofed' };
    const exemption = exemptionOf(flow, config);
    if (exemption !== null) return { ...none, verdict: 'Allow', reason: 'exempt', exemption };
    const protectedFlow =
      flow.traffic === 'Host' && failsafe[flow.direction].some((matches) => matches(flow));
    return judge(rules.get(ruleList(flow.direction, flow.traffic)) ?? [], flow, { protectedFlow, wanted });
  };
}

export type Explainer = (flow: Flow, options?: { considered?: boolean }) => Explanation;

function ruleList(direction: Flow['direction'], traffic: CompiledRule['traffic']): string {
  return `${direction} ${traffic}`;
}

function failsafeMatch(entry: FailsafeEntry, state: NodeState): (flow: KnownFlow) => boolean {
  const [first, last] = entry.ports;
  const everyPort = first === 0 && last === 65535;
  const peers = peerSet(entry.peers, state);
  const isTo = (port: number | undefined, peer: Address | undefined): boolean =>
    (everyPort || (port !== undefined && port >= first && port <= last)) &&
    (peers === null || (peer !== undefined && hasMember(peers.members, peer)));
  return ({ direction, protocol, dstPort, originalDst, originalDstPort, peer }) =>
    protocol === PROTOCOL_NUMBERS[entry.protocol] &&
    (isTo(dstPort, peer) || isTo(originalDstPort, direction === 'ingress' ? peer : originalDst));
}

const NO_RULE = { policy: null, rule: null, ruleIndex: null, tier: null, skipped: [] } as const;

interface Circumstances {
  /** Whether the flow is on the failsafe list. */
  readonly protectedFlow: boolean;
  readonly wanted: boolean;
}

/** The state of an evaluation. */
interface Course {
  decided: CompiledRule | null;
  /** Whether a Pass rule matched, so that only the baseline tier is left. */
  passed: boolean;
  readonly skipped: CompiledRule[];
  readonly audited: CompiledRule[];
}

function judge(
  rules: readonly RuleMatch[],
  flow: KnownFlow,
  { protectedFlow, wanted }: Circumstances,
): Explanation {
  const inSet = new Map<AddressSet, boolean>();
  const considered: Considered[] = [];
  const course: Course = { decided: null, passed: false, skipped: [], audited: [] };
  for (const match of rules) {
    const { rule } = match;
    if (course.passed && rule.tierPriority !== BASELINE_PRIORITY) continue;
    const mismatch = mismatchOf(match, flow, inSet);
    const outcome = mismatch === null ? effectOf(rule, protectedFlow) : 'no match';
    if (wanted) considered.push({ ...names(rule), action: rule.action, mismatch, outcome });
    follow(course, rule, outcome);
    if (course.decided !== null) break;
  }
  return { ...answer(course), ...(wanted ? { considered } : {}) };
}

/** The outcome of a rule that matches the flow. */
function effectOf(rule: CompiledRule, protectedFlow: boolean): Considered['outcome'] {
  if (protectedFlow && isSkippable(rule)) return 'skipped';
  if (rule.mode === 'Audit') return 'audited';
  return rule.action === 'Pass' ? 'passed' : 'decided';
}

function follow(course: Course, rule: CompiledRule, outcome: Considered['outcome']): void {
  switch (outcome) {
    case 'no match':
      break;
    case 'skipped':
      // A skipped Audit rule would have decided nothing.
      if (rule.mode !== 'Audit') course.skipped.push(rule);
      break;
    case 'audited':
      course.audited.push(rule);
      break;
    case 'passed':
      course.passed = true;
      break;
    case 'decided':
      course.decided = rule;
      break;
  }
}

function answer({ decided, skipped, audited }: Course): Answer {
  // Pass is not a decision.
  const verdict = decided === null || decided.action === 'Pass' ? 'Allow' : decided.action;
  const [first] = skipped;
  const changed = first !== undefined && first.action !== verdict;
  const { policy, rule, ruleIndex, tier } = decided === null ? NO_RULE : names(decided);
  return {
    verdict,
    policy,
    rule,
    ruleIndex,
    tier,
    reason: changed ? 'failsafe' : decided === null ? 'default' : 'rule',
    skipped: skipped.map(({ source }) => ({ policy: source.policy, rule: source.rule })),
    ...(audited.length === 0 ? {} : { audited: audited.map(auditedRule) }),
  };
}

function auditedRule({ source, action }: CompiledRule): NonNullable<Answer['audited']>[number] {
  return { policy: source.policy, rule: source.rule, action };
}

function names({ source, tier }: CompiledRule): {
  policy: string;
  rule: string;
  ruleIndex: number;
  tier: string;
} {
  return { policy: source.policy, rule: source.rule, ruleIndex: source.ruleIndex, tier };
}
