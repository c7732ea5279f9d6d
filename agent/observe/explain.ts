import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config, Exemption, FailsafeEntry } from '../../apis/config.ts';
import { failsafeList, failsafePeers, isSkippable, sparesLocalPods } from '../../apis/exemptions.ts';
import {
  type Considered,
  type Explanation,
  type Flow,
  type FlowAnswer,
  ipProtocolNumber,
} from '../../apis/flow.ts';
import { BASELINE_PRIORITY } from '../../apis/order.ts';
import type { Address } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import {
  everyRule,
  exemptionTest,
  isSpared,
  mismatchOf,
  type RuleLookup,
  type RuleMatch,
  ruleMatches,
  spoofedTest,
} from './flow-match.ts';
import { flowReader, type KnownFlow } from './known-flow.ts';

/**
 * Explains the verdict for one connection, from the NodeState that is also rendered (with names
 * resolved). Evaluates the rules in order, as docs/semantics.md section 2 says, independent of the
 * rule index. Cost: the rules of the direction, and one look-up per address set and flow. Throws if
 * a rule names an unknown set or interface group.
 */
export function explain(
  state: NodeState,
  config: Config,
  lookUp: RuleLookup = everyRule(ruleMatches(state, config)),
): Explainer {
  const toKnown = flowReader(state, config);
  const evaluate = evaluator(state, config, lookUp);
  return (given, { considered: wanted = false } = {}) => {
    const considered: Considered[] = [];
    const result = evaluate(toKnown(given), wanted ? considered : null);
    return { ...toAnswer(result), ...(wanted ? { considered } : {}) };
  };
}

/** A verdict before all rules, or the course of the evaluation of rules. */
type Evaluation = 'spoofed' | { readonly exemption: Exemption } | Course;

/** Evaluates flows. Appends the rules that were tested to `considered`. */
export function evaluator(
  state: NodeState,
  config: Config,
  lookUp: RuleLookup,
): (flow: KnownFlow, considered: Considered[] | null) => Evaluation {
  const isSpoofed = spoofedTest(state, config);
  const exemptionOf = exemptionTest(state, config);
  const failsafe = {
    ingress: failsafeList(config, 'ingress', state).map((entry) => failsafeMatch(entry, state)),
    egress: failsafeList(config, 'egress', state).map((entry) => failsafeMatch(entry, state)),
  };
  const isListed = (flow: KnownFlow): boolean =>
    failsafe[flow.direction].some(({ isOf }) => isOf(flow)) ||
    (flow.isUntracked && failsafe[OPPOSITE[flow.direction]].some(({ isAnswerOf }) => isAnswerOf(flow)));
  return (flow, considered) => {
    if (isSpoofed(flow)) return 'spoofed';
    const exemption = exemptionOf(flow);
    if (exemption !== null) return { exemption };
    const isProtected = flow.traffic === 'Host' && isListed(flow);
    const circumstances = { isProtected, isSpared: isSpared(flow, config), considered };
    return evaluate(lookUp(flow, isProtected), flow, circumstances);
  };
}

/** The rule that decided; null if none did. */
export function decidingRule(result: Evaluation): CompiledRule | null {
  return result === 'spoofed' || 'exemption' in result ? null : result.decided;
}

function toAnswer(result: Evaluation): FlowAnswer {
  if (result === 'spoofed') return { ...NO_RULE, verdict: 'Drop', reason: 'spoofed' };
  if ('exemption' in result)
    return { ...NO_RULE, verdict: 'Allow', reason: 'exempt', exemption: result.exemption };
  const found = answer(result);
  return found.reason === 'default' && result.isSpared
    ? { ...found, reason: 'exempt', exemption: 'localPods' }
    : found;
}

export type Explainer = (flow: Flow, options?: { considered?: boolean }) => Explanation;

const OPPOSITE = { ingress: 'egress', egress: 'ingress' } as const;

interface FailsafeMatch {
  readonly isOf: (flow: KnownFlow) => boolean;
  /** Whether a packet of the other direction may be an answer, by its source port and its peer. */
  readonly isAnswerOf: (flow: KnownFlow) => boolean;
}

function failsafeMatch(entry: FailsafeEntry, state: NodeState): FailsafeMatch {
  const [first, last] = entry.ports;
  const everyPort = first === 0 && last === 65535;
  const peers = failsafePeers(entry.peers, state);
  const isTo = (port: number | undefined, peer: Address | undefined): boolean =>
    (everyPort || (port !== undefined && port >= first && port <= last)) &&
    (peers === null || (peer !== undefined && hasMember(peers.members, peer)));
  const number = ipProtocolNumber(entry.protocol);
  return {
    isOf: ({ direction, protocol, dstPort, originalDst, originalDstPort, peer }) =>
      protocol === number &&
      (isTo(dstPort, peer) || isTo(originalDstPort, direction === 'ingress' ? peer : originalDst)),
    isAnswerOf: ({ protocol, srcPort, peer }) => protocol === number && isTo(srcPort, peer),
  };
}

const NO_RULE = { policy: null, rule: null, ruleIndex: null, tier: null, skipped: [] } as const;

interface Circumstances {
  /** Whether the flow is on the failsafe list. */
  readonly isProtected: boolean;
  /** Whether the flow goes to a local pod, and skips the Drop and Reject rules that name no pod. */
  readonly isSpared: boolean;
  readonly considered: Considered[] | null;
}

/** The state of an evaluation. */
interface Course extends Pick<Circumstances, 'isSpared'> {
  decided: CompiledRule | null;
  /** Whether a Pass rule matched, so that only the baseline tier is left. */
  passed: boolean;
  readonly skipped: CompiledRule[];
  readonly audited: CompiledRule[];
}

function evaluate(
  rules: readonly RuleMatch[],
  flow: KnownFlow,
  { isProtected, isSpared, considered }: Circumstances,
): Course {
  const inSet = new Map<AddressSet, boolean>();
  const course: Course = { isSpared, decided: null, passed: false, skipped: [], audited: [] };
  for (const match of rules) {
    const { rule } = match;
    if (course.passed && rule.tierPriority !== BASELINE_PRIORITY) continue;
    const mismatch = mismatchOf(match, flow, inSet);
    if (mismatch !== null && considered === null) continue;
    const outcome = mismatch === null ? effectOf(rule, { isProtected, isSpared }) : 'no match';
    considered?.push({ ...names(rule), action: rule.action, mismatch, outcome });
    follow(course, rule, outcome);
    if (course.decided !== null) break;
  }
  return course;
}

/** The outcome of a rule that matches the flow. */
function effectOf(
  rule: CompiledRule,
  { isProtected, isSpared }: Omit<Circumstances, 'considered'>,
): Considered['outcome'] {
  if (isSpared && sparesLocalPods(rule)) return 'spared';
  if (isProtected && isSkippable(rule)) return 'skipped';
  if (rule.mode === 'Audit') return 'audited';
  return rule.action === 'Pass' ? 'passed' : 'decided';
}

function follow(course: Course, rule: CompiledRule, outcome: Considered['outcome']): void {
  switch (outcome) {
    case 'no match':
    case 'spared':
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

function answer({ decided, skipped, audited }: Course): FlowAnswer {
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

function auditedRule({ source, action }: CompiledRule): NonNullable<FlowAnswer['audited']>[number] {
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
