/**
 * Makes connections and compares three accounts of each: the policy's sentence, `nodewall explain`,
 * and the kernel.
 */
import type { Explanation, Verdict } from '../../apis/flow.ts';
import type { CallAnswer, CallOutcome } from './caller.ts';
import { type DemoConnection, machineAddress } from './connections.ts';
import { type Counters, countedSince, readCounters } from './rule-table.ts';
import { columnWidths, type Screen, type ScreenCell } from './screen.ts';
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

interface Result extends ConnectionTrial {
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

/** Reads the counters until one has changed, or once more after the connection has ended. */
async function start(
  stage: Stage,
  { connection, expected }: ConnectionTrial,
  before: Counters,
): Promise<{ readonly pending: Promise<CallAnswer>; readonly counted: Counted; readonly after: Counters }> {
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

function ruleOf({ policy, rule }: Explanation): string | null {
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

const HEADER = ['from', 'to', 'port', 'expected', 'happened', 'rule', 'packets'];

/** Prints the results in order, and gives those that are not as expected. */
export async function printResults(
  screen: Screen,
  trials: readonly ConnectionTrial[],
  results: readonly Promise<Result>[],
  expectedText: (connection: DemoConnection) => string,
): Promise<Result[]> {
  const fixed = trials.map((trial) => fixedCells(trial, expectedText));
  const widths = columnWidths([HEADER, ...fixed]);
  screen.row(
    HEADER.map((text) => ({ text, style: 'bold' })),
    widths,
  );
  const wrong: Result[] = [];
  for (const [i, pending] of results.entries()) {
    const result = await pending;
    const [from = '', to = '', port = '', expected = '', , rule = ''] = fixed[i] ?? [];
    const texts = [from, to, port, expected].map((text): ScreenCell => ({ text }));
    screen.row([...texts, happened(result), { text: rule }, { text: `${result.packets ?? '-'}` }], widths);
    for (const surprise of result.surprises) screen.row([{ text: `  ! ${surprise}`, style: 'red' }], []);
    if (result.surprises.length > 0) wrong.push(result);
  }
  return wrong;
}

/** The columns known before the connection is made; the widest text stands for the result. */
function fixedCells(
  { connection, explanation }: ConnectionTrial,
  expectedText: (connection: DemoConnection) => string,
): string[] {
  const { from, to, family, protocol, port } = connection;
  const names = { failsafe: 'failsafe', default: 'none', exempt: 'exempt', spoofed: 'spoofed' };
  const rule = { rule: explanation.rule ?? '', ...names };
  return [
    `${from.padEnd(8)} ${machineAddress(from, family)}`,
    to,
    `${protocol.toUpperCase()} ${port}`,
    expectedText(connection),
    `✓ ${OUTCOMES.Allow}`,
    rule[explanation.reason],
  ];
}

function happened({ outcome, surprises }: Result): ScreenCell {
  if (surprises.length > 0) return { text: `✗ ${outcome}`, style: 'red' };
  return { text: `✓ ${outcome}`, style: outcome === 'answered' ? 'green' : 'yellow' };
}
