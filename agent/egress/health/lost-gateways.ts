import type { EgressOutcome, EgressSlot, NodeEgress } from '../../../apis/egress/node-egress.ts';

/** When something that is asked again and again counts as lost, and as back. */
export interface LossThresholds {
  /** So many questions in a row without an answer: lost. */
  readonly losses: number;
  /** So many answers in a row: back. */
  readonly answers: number;
}

export interface Answers {
  readonly isLost: boolean;
  /** How many answers in a row would change `isLost`. */
  readonly inRow: number;
}

/** A node that nobody has asked yet counts as there. */
export const UNASKED: Answers = { isLost: false, inRow: 0 };

export const LOST: Answers = { isLost: true, inRow: 0 };

export function withAnswer(
  { isLost, inRow }: Answers,
  isAnswered: boolean,
  patience: LossThresholds,
): Answers {
  if (isAnswered !== isLost) return { isLost, inRow: 0 };
  const now = inRow + 1;
  const enough = isLost ? patience.answers : patience.losses;
  return now >= enough ? { isLost: !isLost, inRow: 0 } : { isLost, inRow: now };
}

/**
 * The egress of a node that does not reach some gateway nodes: connections that begin go to the
 * others, or to the next in reserve; without any they are dropped, or leave directly, as the policy
 * says. `ended` are the slots whose connections would find another way: they are to end, so that
 * their clients begin anew. Where nothing else is reached they stay, because the fault may be this
 * node's own, and short. Slots of floating addresses go on: leases decide about their owners.
 *
 * @param lost names of nodes
 */
export function withoutLost(egress: NodeEgress, lost: ReadonlySet<string>): NodeEgress {
  const dead = deadSlots(egress, lost);
  if (dead.size === 0) return egress;
  const left = new Map([...egress.outcomes].map(([id, one]) => [id, outcomeWithout(one, dead)]));
  const ended = new Set<number>();
  for (const [id, { action }] of egress.outcomes) {
    if (left.get(id)?.action.kind === 'drop') continue;
    for (const slot of slotsOf(action)) if (dead.has(slot)) ended.add(slot);
  }
  return { ...egress, outcomes: left, ...(ended.size === 0 ? {} : { ended }) };
}

/** The slots that may take the connections of an outcome. */
export function slotsOf(action: EgressOutcome['action']): readonly number[] {
  return action.kind === 'slots' ? [...action.slots, ...(action.reserve ?? [])] : [];
}

function deadSlots({ slots }: NodeEgress, lost: ReadonlySet<string>): Set<number> {
  const isDead = ({ node, take, floating }: EgressSlot): boolean =>
    take === 0 && floating === undefined && lost.has(node);
  return new Set([...slots.values()].filter(isDead).map(({ number }) => number));
}

function outcomeWithout(outcome: EgressOutcome, dead: ReadonlySet<number>): EgressOutcome {
  const { action } = outcome;
  if (action.kind !== 'slots') return outcome;
  const slots = action.slots.filter((slot) => !dead.has(slot));
  if (slots.length === action.slots.length) return outcome;
  if (slots.length > 0) return { ...outcome, action: { ...action, slots } };
  const next = action.reserve?.find((slot) => !dead.has(slot));
  if (next !== undefined) return { ...outcome, action: { ...action, slots: [next] } };
  const isDirect = action.otherwise === 'Direct';
  return { ...outcome, action: isDirect ? { kind: 'direct' } : { kind: 'drop', reason: 'not-ready' } };
}
