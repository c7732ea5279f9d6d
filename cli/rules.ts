import type { RuleTotals } from '../agent/record/accounting.ts';
import { SPOOFED } from '../agent/render/anti-spoofing.ts';
import type { CompiledRule } from '../apis/compiled.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { json, print, table } from './output.ts';
import { readState, readTotals } from './saved-state.ts';

interface RulesOptions {
  readonly stateDir: string;
  readonly config?: string;
  readonly policy?: string;
  readonly output: 'table' | 'json';
}

/** `nodewall rules`: the rules in force and their counters. */
export async function rulesCommand(options: RulesOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const state = await readState(options.stateDir);
  const totals = await readTotals(options.stateDir, () => new Date().toISOString());
  const rules = state.rules
    .filter(({ source }) => options.policy === undefined || source.policy === options.policy)
    .map((rule) => toRow(rule, totals.get(rule.id)));
  const spoofed = toCount(totals.get(SPOOFED));
  const dropped = `\nspoofed: ${spoofed.packets} packets dropped, ${spoofed.bytes} bytes, last ${lastText(spoofed)}\n`;
  if (options.output === 'json') await print(json({ node: state.node, rules, spoofed }));
  else if (rules.length === 0) await print(`No rule is in force on ${state.node}.\n`);
  else await print(`${toTable(rules)}${spoofed.packets === 0 ? '' : dropped}`);
  return EXIT.done;
}

type Count = Pick<RuleTotals, 'packets' | 'bytes' | 'lastHit'>;
type Row = ReturnType<typeof toRow>;

function toRow({ id, source, tier, action, mode, traffic }: CompiledRule, totals: RuleTotals | undefined) {
  const { direction, policy, apiGroup, rule, ruleIndex } = source;
  return {
    id,
    direction,
    tier,
    policy,
    apiGroup,
    rule,
    ruleIndex,
    action,
    mode,
    traffic,
    ...toCount(totals),
  };
}

function toCount({ packets, bytes, lastHit }: Count = { packets: 0, bytes: 0, lastHit: null }): Count {
  return { packets, bytes, lastHit };
}

export function lastText({ lastHit }: Pick<Count, 'lastHit'>): string {
  return lastHit === null ? 'never' : lastHit.replace(/\.\d+Z$/, 'Z');
}

function toTable(rules: readonly Row[]): string {
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
