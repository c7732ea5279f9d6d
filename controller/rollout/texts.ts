import {
  MOST_NAMED_NODES,
  type RolloutDecision,
  type RolloutSettings,
  type RolloutStatus,
} from '../../apis/rollout.ts';
import { type RolloutNode, stepSizes, takesPart } from './order.ts';
import type { Outcome } from './outcome.ts';

/** What one node made of the new version, and why. */
export interface NodeOutcome {
  readonly outcome: Outcome;
  readonly reason: string;
}

/** The fields of `status.rollout` that are for people. */
export function shownStatus(
  decision: RolloutDecision,
  { steps }: Pick<RolloutSettings, 'steps'>,
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
  const of = (wanted: Outcome) => outcomes.filter(({ outcome }) => outcome === wanted);
  const [confirmed, failed, silent] = [of('confirmed'), of('failed'), of('silent')];
  const updated = `${taking.length} of ${nodes.length} nodes have the new version`;
  const parts = [
    `${updated}, ${confirmed.length} confirmed it`,
    ...(failed.length === 0 ? [] : [`${failed.length} failed`]),
    ...(silent.length === 0 ? [] : [`${silent.length} do not report`]),
  ];
  const why = decision.pausedBy === undefined ? '' : ` ${WHY_PAUSED[decision.pausedBy]}`;
  return {
    progress,
    message: `${parts.join(', ')}.${why}`,
    nodes: nodes.length,
    updated: taking.length,
    confirmed: confirmed.length,
    ...(failed.length === 0
      ? {}
      : { failed: failed.slice(0, MOST_NAMED_NODES).map(({ node, reason }) => ({ node, reason })) }),
    ...(silent.length === 0 ? {} : { silent: silent.slice(0, MOST_NAMED_NODES).map(({ node }) => node) }),
  };
}

const WHY_PAUSED = {
  Command: 'The annotation nodewall.io/rollout pauses it.',
  Failures: 'Too many nodes failed: resume or undo it, or change the policy.',
};

function progressText({ state, step }: RolloutDecision, all: number): string {
  if (state === 'Completed' || state === 'Undone') return state;
  return state === 'Paused' ? `Paused at step ${step} of ${all}` : `Step ${step} of ${all}`;
}

function endText({ state, policies }: RolloutDecision): string {
  const versions = (of: 'from' | 'to') => {
    const said = policies.map((one) =>
      one[of] === 0 ? `${one.name}: none` : `${one.name}: generation ${one[of]}`,
    );
    return said.join(', ');
  };
  return state === 'Undone'
    ? `All nodes have the last completed version (${versions('from')}), until the spec changes.`
    : `All nodes have the version (${versions('to')}).`;
}
