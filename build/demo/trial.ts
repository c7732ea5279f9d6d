/**
 * Makes connections and compares three accounts of each: the policy's sentence, `nodewall explain`,
 * and the kernel.
 */
import type { Explanation, Verdict } from '../../apis/flow.ts';
import type { CallAnswer, CallOutcome } from './caller.ts';
import type { DemoConnection } from './connections.ts';
import { type Counters, countedSince, readCounters } from './rule-table.ts';
import type { Stage } from './stage.ts';

/** The result that a caller sees, by verdict. */
export const OUTCOMES: Readonly<Record<Verdict, CallOutcome>> = {
  Allow: 'answered',
  Drop: 'silence',
  Reject: 'refused',
};

/** The comment of the rules that send traffic of the failsafe list to its index. */
const FAILSAFE = 'failsafe';

export interface ConnectionTrial {
  readonly connection: DemoConnection;
  readonly expected: Verdict;
  /** The answer of `nodewall explain`. */
  readonly explanation: Explanation;
}

export interface Result extends ConnectionTrial {
  readonly outcome: CallOutcome;
  /**
   * Packets that the counter of the deciding rule, or of the failsafe list, counted; null where
   * neither decides.
   */
  readonly packets: number | null;
  /** Results that are not as expected; empty: all are. */
  readonly surprises: readonly string[];
}

/**
 * Results in order. The connections start one after the other, each once the kernel has counted the
 * one before, so every packet counted belongs to one of them; the waits for an answer overlap.
 */
export function attemptTrials(stage: Stage, trials: readonly ConnectionTrial[]): Promise<Result>[] {
  let turn = readCounters(stage.node);
  const results = trials.map((trial) => {
    const started = turn.then((before) => start(stage, trial, before));
    turn = started.then(({ after }) => after);
    return started.then(async ({ pending, counted }) => toResult(trial, (await pending).outcome, counted));
  });
  // A failure is told where the result is awaited, which may be later or, after an interruption,
  // never.
  for (const result of [turn, ...results]) result.catch(() => {});
  return results;
}

type Counted = ReturnType<typeof countedSince>;

interface Started {
  readonly pending: Promise<CallAnswer>;
  readonly counted: Counted;
  readonly after: Counters;
}

/** Reads the counters until one has changed, or once more after the connection has ended. */
async function start(
  stage: Stage,
  { connection, expected }: ConnectionTrial,
  before: Counters,
): Promise<Started> {
  const pending = stage.call(connection, OUTCOMES[expected]);
  let hasEnded = false;
  void pending.then(() => {
    hasEnded = true;
  });
  for (;;) {
    const isLast = hasEnded;
    const after = await readCounters(stage.node);
    const counted = countedSince(before, after);
    if (counted.length > 0 || isLast) return { pending, counted, after };
  }
}

export function ruleOf({ policy, rule }: Explanation): string | null {
  return policy === null ? null : `${policy}/${rule}`;
}

/** Each surprise with the connection that gave it. */
export function surprisesOf({ connection, surprises }: Result): string[] {
  const { from, to, family, protocol, port } = connection;
  const who = `${from} (IPv${family}) to ${to} ${protocol.toUpperCase()} ${port}`;
  return surprises.map((surprise) => `${who}: ${surprise}`);
}

function toResult(trial: ConnectionTrial, outcome: CallOutcome, counted: Counted): Result {
  const { expected, explanation } = trial;
  // Where the failsafe list made the difference, its own counter tells of it.
  const rule = explanation.reason === 'failsafe' ? FAILSAFE : ruleOf(explanation);
  const packets = counted.find((one) => one.rule === rule)?.packets ?? 0;
  const surprises: string[] = [];
  if (outcome !== OUTCOMES[expected]) surprises.push(`${outcome}, not ${OUTCOMES[expected]}`);
  if (explanation.verdict !== expected) surprises.push(`nodewall explain says ${explanation.verdict}`);
  if (rule !== null && packets === 0) surprises.push(`${rule} did not count it`);
  // Failsafe traffic is counted on its way to the rules that are tried for it, whichever decides.
  const others = counted.filter((one) => one.rule !== rule && one.rule !== FAILSAFE);
  for (const one of others) surprises.push(`${one.rule} counted it`);
  return { ...trial, outcome, packets: rule === null ? null : packets, surprises };
}
