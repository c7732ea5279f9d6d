import { type Count, type CountedRule, ruleCounts } from '../agent/inspect/rule-counts.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { fromNode, type OfNode } from './node-data.ts';
import { json, print, table } from './output.ts';

interface RulesOptions extends OfNode {
  readonly stateDir: string;
  readonly config?: string;
  readonly policy?: string;
  readonly unused: boolean;
  readonly output: 'table' | 'json';
}

/** `nodewall rules`: the rules in force and their counters. */
export async function rulesCommand(options: RulesOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const { policy, unused } = options;
  const query = new URLSearchParams(policy === undefined ? {} : { policy });
  const found = await fromNode(options, 'counters', query, () => ruleCounts(options.stateDir, policy));
  const { node, spoofed, remark, ...counted } = found;
  const rules = counted.rules.filter(({ packets }) => !unused || packets === 0);
  if (remark !== null) process.stderr.write(`nodewall: ${remark}\n`);
  const dropped = `\nspoofed: ${spoofed.packets} packets dropped, ${spoofed.bytes} bytes, last ${lastText(spoofed)}\n`;
  if (options.output === 'json') await print(json({ node, rules, spoofed }));
  else if (rules.length > 0) await print(`${toTable(rules)}${spoofed.packets === 0 ? '' : dropped}`);
  else if (unused && counted.rules.length > 0)
    await print(`Each rule that is in force on ${node} has matched a packet.\n`);
  else await print(`No rule is in force on ${node}.\n`);
  return EXIT.done;
}

export function lastText({ lastHit }: Pick<Count, 'lastHit'>): string {
  return lastHit === null ? 'never' : lastHit.replace(/\.\d+Z$/, 'Z');
}

function toTable(rules: readonly CountedRule[]): string {
  const header = ['#', 'direction', 'tier', 'policy/rule', 'action', 'packets', 'bytes', 'last hit'];
  const rows = rules.map((row, i) => [
    String(i + 1),
    row.traffic === 'Host' ? row.direction : `${row.direction} ${row.traffic}`,
    row.tier,
    `${row.policy}/${row.rule}`,
    row.mode === 'Audit' ? `${row.action} (audit)` : row.action,
    String(row.packets),
    String(row.bytes),
    lastText(row),
  ]);
  return table(header, rows);
}
