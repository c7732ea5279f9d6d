import {
  MOST_NAMED_NODES,
  type RolloutDecision,
  type RolloutNotes,
  type RolloutSettings,
  type RolloutStatus,
} from '../../apis/rollout.ts';
import { utcText } from '../../lib/process/clock.ts';
import type { RolloutOutcome, RolloutStage } from './decision.ts';
import { type RolloutNode, stepSizes, takesPart } from './order.ts';

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
