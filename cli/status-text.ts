import type { StatusProblem } from '../apis/console.ts';
import type { NodePhase } from '../apis/node-report.ts';
import { styled } from '../lib/process/styled.ts';
import { printable } from '../lib/sharing/printable.ts';
import { table } from './output.ts';
import { fieldText } from './record-text.ts';

interface RolloutUnderWay {
  readonly policy: string;
  /** As in `Step 1 of 4`. */
  readonly progress: string;
  /** Counts of nodes, and when the next step begins. */
  readonly message: string;
}

/** The data that `nodewall status` shows. */
export interface ClusterStatus {
  /** By phase; those without Nodes are left out. */
  readonly nodes: Readonly<Partial<Record<NodePhase, number>>>;
  readonly policies: Readonly<Record<string, number>>;
  readonly guardrails: Readonly<Record<string, number>>;
  /** Those that go on as they should. */
  readonly rollouts: readonly RolloutUnderWay[];
  /** The worst first. */
  readonly problems: readonly StatusProblem[];
}

/** Problems of one kind and phase that are named; a node that is lost has many neighbours. */
const MOST_ALIKE = 5;

/** One screen: problems first, then counts. */
export function statusText({ nodes, policies, guardrails, rollouts, problems }: ClusterStatus): string {
  const rows: string[][] = [];
  for (const [, alike] of Map.groupBy(problems, ({ object, phase }) => `${object.split('/')[0]} ${phase}`)) {
    for (const { object, phase, message } of alike.slice(0, MOST_ALIKE))
      rows.push([fieldText(object), phase, oneLine(message)]);
    const [first] = alike;
    const left = alike.length - MOST_ALIKE;
    if (left > 0 && first !== undefined) rows.push([`${left} more`, first.phase, '-o json shows all']);
  }
  const shown = rows.length === 0 ? '' : `${table(['problem', 'phase', 'why'], rows)}\n`;
  const counts = [
    ['nodes', countText(nodes)],
    ['policies', countText(policies)],
    ['guardrails', countText(guardrails)],
    ...rollouts.map(({ policy, progress, message }, i) => [
      i === 0 ? 'rollouts' : '',
      oneLine(`${fieldText(policy)}: ${progress}. ${message}`),
    ]),
  ];
  const summary = counts.map(([name = '', text]) => `${styled('bold', name.padEnd(12))}${text}\n`).join('');
  return `${shown}${summary}${rows.length === 0 ? 'No problems.\n' : ''}`;
}

/** As in `12 Realized, 1 Failed`. */
function countText(counts: Readonly<Record<string, number | undefined>>): string {
  const parts = Object.entries(counts).map(([phase, count]) => `${count} ${phase}`);
  return parts.length === 0 ? 'none' : parts.join(', ');
}

/**
 * The first line, of at most so many characters; an ellipsis ends one that was longer. Messages
 * come from nodes, which must not send control sequences to a terminal.
 */
export function oneLine(message: string, most = 160): string {
  const [first = ''] = message.split('\n', 1);
  const text = printable(first);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
