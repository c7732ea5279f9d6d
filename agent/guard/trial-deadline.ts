import type { NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry, GuardConfig } from '../../apis/config.ts';
import type { Deadline } from '../../apis/deadline.ts';
import type { GuardState } from './guard-state.ts';
import { policyChanges } from './holds.ts';
import { flowsOf, type Probe } from './probes.ts';
import { mayDeny } from './verdicts.ts';

/** Seconds: more than a restart of the agent takes, and less than a minute until a node is back. */
const SHORTEST = 20;
const LONGEST = 45;

interface TrialDeadlineParts {
  readonly config: Config;
  /** All probes of this agent, inward ones too. */
  readonly probes: () => readonly Probe[];
  /** API servers and controllers, whatever the configuration's failsafe list is. */
  readonly controlPlane: () => readonly FailsafeEntry[];
  /** Ids of the sets that have a probe's address otherwise than in the confirmed state. */
  readonly touched: (state: NodeState) => readonly string[];
}

type Known = Pick<GuardState, 'confirmed' | 'trial'>;

/**
 * The deadline of states that are tried, or may be: whether one is tried is known only once it is
 * in force, and the deadline comes with it, in one transaction.
 */
export class TrialDeadline {
  readonly #parts: TrialDeadlineParts;
  #last: { readonly from: NodeState; readonly text: string; readonly to: NodeState } | null = null;

  constructor(parts: TrialDeadlineParts) {
    this.#parts = parts;
  }

  /** The state as it is submitted: the same object again if nothing is different. */
  over(state: NodeState, known: Known): NodeState {
    const deadline = this.#of(state, known);
    const text = JSON.stringify(deadline);
    const last = this.#last;
    if (last?.from === state && last.text === text) return last.to;
    const to = deadline === null ? state : { ...state, deadline };
    this.#last = { from: state, text, to };
    return to;
  }

  #of(state: NodeState, { confirmed, trial }: Known): Deadline | null {
    const { config, probes, controlPlane, touched } = this.#parts;
    const changes = policyChanges(confirmed, state);
    const isTriedOrMay = (): boolean => trial !== null || mayDeny(confirmed, state, changes);
    if (touched(state).length === 0 && (changes.length === 0 || !isTriedOrMay())) return null;
    // Which ones count is not known before the trial.
    const counted = probes().filter(({ name }) => trial === null || trial.counted.has(name));
    return {
      milliseconds: deadlineAfter(config.guard),
      entries: controlPlane(),
      flows: counted.flatMap(flowsOf),
    };
  }
}

/** Milliseconds until the deadline, from when the agent moves it. */
export function deadlineAfter({ failAfter }: Pick<GuardConfig, 'failAfter'>): number {
  return 1000 * Math.min(LONGEST, Math.max(SHORTEST, Math.ceil(2 * failAfter)));
}
