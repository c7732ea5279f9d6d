/** The table of connections: a line as soon as its result is known. */
import { type DemoConnection, machineAddress } from './connections.ts';
import { columnWidths, type Screen, type ScreenCell } from './screen.ts';
import { type ConnectionTrial, OUTCOMES, type Result } from './trial.ts';

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
