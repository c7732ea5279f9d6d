import { isDeepStrictEqual } from 'node:util';
import type { NodeReport } from '../../apis/node-report.ts';
import {
  EVERY_PLACE,
  MOST_NAMED_NODES,
  type RolloutDecision,
  type RolloutMember,
  type RolloutNotes,
  type RolloutSettings,
  type RolloutShare,
  type RolloutStatus,
  rolloutCommand,
} from '../../apis/rollout.ts';
import { utcText } from '../../lib/process/clock.ts';
import { placeInRollout, type RolloutNode, rolloutOrder, shareOf, stepSizes, takesPart } from './order.ts';

/**
 * The outcome of a policy's version on a node. `silent`: its agent does not report, or was switched
 * off by hand; a rollout does not wait for it.
 */
export type RolloutOutcome = 'pending' | 'confirmed' | 'failed' | 'silent';

/** Facts about a node, beside its last report. */
interface NodeFacts {
  /** Null: it has not reported. */
  readonly report: NodeReport | null;
  /** Whether too much time has passed without a report. */
  readonly isSilent: boolean;
  /** Whether the revision that it enforces has the version. */
  readonly isCurrent: boolean;
  /** Whether it reports that it cannot enforce a rule of the version. */
  readonly isFailing: boolean;
}

/** The only function that says what a report means for a rollout. */
export function rolloutOutcome({ report, isSilent, isCurrent, isFailing }: NodeFacts): RolloutOutcome {
  if (isSilent || report?.off !== undefined) return 'silent';
  if (report === null) return 'pending';
  if (isFailing || report.viewError !== undefined) return 'failed';
  return isCurrent && report.enabled ? 'confirmed' : 'pending';
}

/** One policy of a rollout, as it is now. */
export interface MemberFacts {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  /** The generation in force before the policy had a rollout; 0: none. */
  readonly before: number;
  /** Whether the rules of two generations are the same; those of one that is not known are not. */
  readonly isSame: (a: number, b: number) => boolean;
  /** The annotation; null: none. */
  readonly command: string | null;
}

export interface RolloutFacts {
  /** The key of RolloutDecision. */
  readonly key: string;
  /** Sorted by name; at least one. */
  readonly members: readonly MemberFacts[];
  readonly settings: RolloutSettings;
  /** All nodes that a version of a member applies to. */
  readonly nodes: readonly RolloutNode[];
  /** The outcome of the new versions on a node that takes part. */
  readonly outcomeOf: (node: string) => RolloutOutcome;
  /** Time of day, milliseconds. */
  readonly now: number;
}

/** A decision, with the notes beside it. */
export interface RolloutStage {
  readonly decision: RolloutDecision;
  readonly notes: RolloutNotes;
}

export interface NextStage extends RolloutStage {
  /** Milliseconds until time alone may change it; null: never. */
  readonly next: number | null;
}

/** A stage that is being decided. */
interface Draft extends RolloutStage {
  /** The nodes that come first in the order. */
  readonly taking: RolloutShare;
}

const NOBODY: RolloutShare = { through: '', firsts: [] };
/** Replaced in the end. */
const UNNAMED = { serial: 0, key: '' };

/**
 * The next stage of a rollout, at most one step further: a pure function, so that a new leader
 * continues with what the last one wrote. An unchanged decision is the same object.
 */
export function nextStage(last: RolloutStage | null, facts: RolloutFacts): NextStage {
  const { notes, next, ...decided } = advance(withCommands(withTargets(last, facts), facts), facts);
  const serial = last?.decision.serial ?? 0;
  const decision = { ...decided.decision, key: facts.key };
  if (last !== null && isDeepStrictEqual({ ...decision, serial }, last.decision))
    return { decision: last.decision, notes, next };
  return { decision: { ...decision, serial: serial + 1 }, notes, next };
}

/** The versions that nodes are to get. A version with other rules begins at the first step. */
function withTargets(last: RolloutStage | null, { members }: RolloutFacts): Draft {
  const before = last?.decision ?? null;
  const known = new Map(before?.policies.map((one) => [one.uid, one]));
  let isRestart = false;
  const policies = members.map((member): RolloutMember => {
    const { name, uid, generation, command } = member;
    const there = known.get(uid);
    if (there === undefined) {
      isRestart ||= !member.isSame(member.before, generation);
      return { name, uid, from: member.before, to: generation, ...(command === null ? {} : { command }) };
    }
    if (there.to === generation) return there;
    const isSame = member.isSame(there.to, generation);
    isRestart ||= !isSame || before?.state === 'Undone';
    if (before?.state !== 'Completed') return { ...there, to: generation };
    return { ...there, from: isSame ? generation : there.to, to: generation };
  });
  const isBack = policies.every(({ from, to }, i) => members[i]?.isSame(from, to) === true);
  const draft = { notes: last?.notes ?? {}, taking: before ?? NOBODY };
  if (isBack && before?.state !== 'Completed') return { ...draft, ...completed(policies) };
  if (before === null || isRestart) {
    const decision = { ...UNNAMED, state: 'Progressing', step: 0, ...NOBODY, policies } as const;
    const taking = before === null || before.state === 'Completed' ? NOBODY : before;
    return { decision, notes: {}, taking };
  }
  return { ...draft, decision: { ...before, policies } };
}

/** Acts on annotations that were not acted on yet. */
function withCommands(draft: Draft, { members, nodes, outcomeOf }: RolloutFacts): Draft {
  let { decision, notes } = draft;
  for (const [i, { command }] of members.entries()) {
    const { command: last, ...member } = decision.policies[i] as RolloutMember;
    if ((last ?? null) === command) continue;
    const policies = decision.policies.with(i, { ...member, ...(command === null ? {} : { command }) });
    decision = { ...decision, policies };
    const isOver = decision.state === 'Completed' || decision.state === 'Undone';
    switch (rolloutCommand(command)) {
      case 'resume': {
        if (decision.state !== 'Paused') break;
        const failed = takers(nodes, decision).filter(({ name }) => outcomeOf(name) === 'failed');
        const { pausedBy: _, ...others } = decision;
        decision = { ...others, state: 'Progressing' };
        notes = { ...notes, tolerated: failed.map(({ name }) => name) };
        break;
      }
      case 'undo':
        if (isOver) break;
        decision = { ...UNNAMED, state: 'Undone', step: 0, ...NOBODY, policies };
        notes = {};
        break;
      case 'promote':
        if (decision.state !== 'Completed') ({ decision, notes } = completed(policies));
        break;
      case 'pause':
      case null:
    }
  }
  return { ...draft, decision, notes };
}

function completed(policies: readonly RolloutMember[]): RolloutStage {
  const done = policies.map((one) => ({ ...one, from: one.to }));
  const share = { through: EVERY_PLACE, firsts: [] };
  return { decision: { ...UNNAMED, state: 'Completed', step: 0, ...share, policies: done }, notes: {} };
}

function advance({ decision, notes, taking }: Draft, facts: RolloutFacts): NextStage {
  const { members, settings, nodes, outcomeOf, now } = facts;
  if (decision.state === 'Completed' || decision.state === 'Undone') return { decision, notes, next: null };
  const isAsked = members.some(({ command }) => rolloutCommand(command) === 'pause');
  const { pausedBy: last, ...others } = decision;
  const tolerated = new Set(notes.tolerated);
  const outcomes = takers(nodes, decision).map(({ name }) =>
    tolerated.has(name) ? 'done' : outcomeOf(name),
  );
  const failures = outcomes.filter((outcome) => outcome === 'failed').length;
  const isPending = outcomes.includes('pending');
  // Once the pause has begun, nodes that join or start again do not prolong it.
  const settled = isPending && notes.settled === undefined ? null : settledAt(notes, now);
  const noted: RolloutNotes = {
    ...(settled === null ? {} : { settled: new Date(settled).toISOString() }),
    ...(tolerated.size === 0 ? {} : { tolerated: [...tolerated] }),
  };
  const isFailed = last === 'Failures' || failures > settings.maxFailures;
  if (isFailed || isAsked) {
    const pausedBy = isFailed ? 'Failures' : 'Command';
    return { decision: { ...others, state: 'Paused', pausedBy }, notes: noted, next: null };
  }
  const running: RolloutDecision = { ...others, state: 'Progressing' };
  if (settled === null) return { decision: running, notes: noted, next: null };
  const { settled: _, ...kept } = noted;
  const isProven = outcomes.some((outcome) => outcome !== 'silent');
  const extended = isProven || decision.step === 0 ? null : extendedStep(running, facts);
  if (extended !== null) return { decision: extended, notes: kept, next: null };
  const left = decision.step === 0 ? 0 : settled + settings.pause * 1000 - now;
  if (left > 0) return { decision: running, notes: noted, next: left };
  if (isPending) return { decision: running, notes: noted, next: null };
  return { decision: stepFurther(running, taking, facts), notes: kept, next: null };
}

/** A clock that was set back does not prolong the pause by more than itself. */
function settledAt({ settled }: RolloutNotes, now: number): number {
  const at = settled === undefined ? now : Date.parse(settled);
  return Number.isNaN(at) || at > now ? now : at;
}

/**
 * A step whose nodes are all silent, or gone, proves nothing: it is extended up to the first node
 * that reports. Null: there is none.
 */
function extendedStep(decision: RolloutDecision, facts: RolloutFacts): RolloutDecision | null {
  const { nodes, outcomeOf } = facts;
  const order = rolloutOrder(nodes, decision);
  const have = takers(nodes, decision).length;
  const next = order.findIndex(({ name }, i) => i >= have && outcomeOf(name) !== 'silent');
  return next === -1 ? null : { ...decision, ...grown(decision, shareOf(order, next + 1), facts) };
}

/** Steps that add no node are passed over. */
function stepFurther(decision: RolloutDecision, taking: RolloutShare, facts: RolloutFacts): RolloutDecision {
  const { nodes, settings } = facts;
  const sizes = stepSizes(settings.steps, nodes.length);
  const have = takers(nodes, decision).length;
  const order = rolloutOrder(nodes, taking);
  for (let step = decision.step + 1; step <= sizes.length && have < nodes.length; step++) {
    const size = sizes[step - 1] ?? 0;
    if (size <= have) continue;
    return { ...decision, step, ...grown(decision, shareOf(order, size), facts) };
  }
  return completed(decision.policies).decision;
}

/** The nodes of both shares: those that are away meanwhile take part when they come back. */
function grown(before: RolloutShare, now: RolloutShare, { key }: RolloutFacts): RolloutShare {
  if (now.through === EVERY_PLACE) return now;
  const [, through = ''] = [before.through, now.through].sort();
  const firsts = new Set([...before.firsts, ...now.firsts]);
  return { through, firsts: [...firsts].filter((name) => placeInRollout(name, key) > through) };
}

/** The nodes that take part. */
export function takers(nodes: readonly RolloutNode[], share: RolloutShare): readonly RolloutNode[] {
  return nodes.filter(({ name, place }) => takesPart(share, name, place));
}

/** The outcome of the new version on one node, and the reason. */
export interface NodeOutcome {
  readonly outcome: RolloutOutcome;
  readonly reason: string;
}

/** The fields of `status.rollout` that are for people. */
export function shownStatus(
  { decision, notes }: RolloutStage,
  { steps, pause }: Pick<RolloutSettings, 'steps' | 'pause'>,
  nodes: readonly RolloutNode[],
  outcomeOf: (node: string) => NodeOutcome,
): RolloutStatus {
  const all = stepSizes(steps, nodes.length).length;
  const progress = progressText(decision, all);
  if (decision.state === 'Completed' || decision.state === 'Undone')
    return { progress, message: endText(decision) };
  const taking = nodes.filter(({ name, place }) => takesPart(decision, name, place));
  const outcomes = taking
    .map(({ name: node }) => ({ node, ...outcomeOf(node) }))
    .sort((a, b) => (a.node < b.node ? -1 : 1));
  const of = (wanted: RolloutOutcome): readonly NamedOutcome[] =>
    outcomes.filter(({ outcome }) => outcome === wanted);
  const [confirmed, failed, silent, pending] = [of('confirmed'), of('failed'), of('silent'), of('pending')];
  const updated = `${taking.length} of ${nodes.length} nodes have the new version`;
  const parts = [
    `${updated}, ${confirmed.length} confirmed it`,
    ...(failed.length === 0 ? [] : [`${failed.length} failed`]),
    ...(silent.length === 0 ? [] : [`${silent.length} not waited for`]),
  ];
  const why = decision.pausedBy === undefined ? null : WHY_PAUSED[decision.pausedBy];
  const next = pending.length > 0 ? waitText(pending.length) : nextText(notes, pause, decision.step === all);
  const rest = why ?? next;
  return {
    progress,
    message: `${parts.join(', ')}.${rest === null ? '' : ` ${rest}`}`,
    nodes: nodes.length,
    updated: taking.length,
    confirmed: confirmed.length,
    ...(failed.length === 0 ? {} : { failed: withReasons(failed) }),
    ...(silent.length === 0 ? {} : { silent: withReasons(silent) }),
    ...(pending.length === 0 ? {} : { waiting: pending.slice(0, MOST_NAMED_NODES).map(({ node }) => node) }),
  };
}

interface NamedOutcome extends NodeOutcome {
  readonly node: string;
}

function withReasons(
  outcomes: readonly NamedOutcome[],
): { readonly node: string; readonly reason: string }[] {
  return outcomes.slice(0, MOST_NAMED_NODES).map(({ node, reason }) => ({ node, reason }));
}

function waitText(count: number): string {
  return `It waits for ${count} ${count === 1 ? 'node' : 'nodes'}.`;
}

/** Null: the step is not done. */
function nextText({ settled }: RolloutNotes, pause: number, isLast: boolean): string | null {
  const at = settled === undefined ? Number.NaN : Date.parse(settled) + pause * 1000;
  if (Number.isNaN(at)) return null;
  const what = isLast ? 'It is completed' : 'The next step begins';
  return `${what} at ${utcText(at)}.`;
}

const WHY_PAUSED = {
  Command: 'The annotation nodewall.io/rollout pauses it: resume it, or remove the annotation.',
  Failures: 'Too many nodes failed: resume or undo it, or change the policy.',
};

function progressText({ state, step }: RolloutDecision, all: number): string {
  if (state === 'Completed' || state === 'Undone') return state;
  return state === 'Paused' ? `Paused at step ${step} of ${all}` : `Step ${step} of ${all}`;
}

function endText({ state, policies }: RolloutDecision): string {
  const versions = (of: 'from' | 'to') => {
    const said = policies.map((one) =>
      one[of] === 0 ? `${one.name}: none, it is on no node` : `${one.name}: generation ${one[of]}`,
    );
    return said.join(', ');
  };
  return state === 'Undone'
    ? `All nodes have the last completed version (${versions('from')}), until the spec changes.`
    : `All nodes have the version (${versions('to')}).`;
}
