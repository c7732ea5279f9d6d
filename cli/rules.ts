import { ruleCountsHere, type UnusedRules, unusedRules } from '../agent/inspect/rule-counts.ts';
import { toTime } from '../agent/record/record-filter.ts';
import type { PlatformRow } from '../apis/platform.ts';
import { type Count, type CountedRule, type RuleCounts, toRuleCounts } from '../apis/rule-counts.ts';
import { askEach, askNode, nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { loadConfig } from './load.ts';
import { fromNode, type OfNode, sayFailed } from './node-data.ts';
import { errorText, json, print, table } from './output.ts';
import { fieldText } from './record-text.ts';

interface RulesOptions extends OfNode, MachineOptions, Printed<'table' | 'json'> {
  readonly policy?: string;
  /** True: without a time. */
  readonly unused: boolean | string;
  readonly allNodes: boolean;
}

/** `nodewall rules`: the rules in force and their counters. Exit status 3 if no node answers. */
export async function rulesCommand(options: RulesOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const { policy, unused, allNodes, output } = options;
  if (allNodes && unused === false)
    throw new CommandError(
      EXIT.usage,
      '--all-nodes: give --unused too; nodewall top shows counters of all nodes',
    );
  const from = typeof unused === 'string' ? fromTime(unused) : null;
  const query = new URLSearchParams(policy === undefined ? {} : { policy });
  if (allNodes) {
    const counts = await ofAllNodes(options, query);
    if (counts.length === 0) return EXIT.refused;
    await printUnused(unusedRules(counts, from), options);
    return EXIT.done;
  }
  const found = toRuleCounts(
    await fromNode(options, 'counters', query, () => ruleCountsHere(options.stateDir, config, policy)),
  );
  const { node, rules, spoofed, remark, platform = [] } = found;
  if (remark !== null) process.stderr.write(errorText(remark));
  const dropped = `\nspoofed: ${spoofed.packets} packets dropped, ${spoofed.bytes} bytes, last ${lastText(spoofed)}\n`;
  if (unused !== false) await printUnused(unusedRules([found], from), options);
  else if (output === 'json') await print(json({ node, rules, spoofed, platform }));
  else if (rules.length > 0)
    await print(`${toTable(rules)}${spoofed.packets === 0 ? '' : dropped}${platformLine(platform)}`);
  else await print(`${noRules(policy)} in force on ${fieldText(node)}.\n`);
  return EXIT.done;
}

/** Rules that deny without ports spare these. */
function platformLine(rows: readonly PlatformRow[]): string {
  if (rows.length === 0) return '';
  const texts = rows.map(({ entry, reason }) => `${entry} (${reason})`);
  return `\nspared, as it carries pods: ${fieldText(texts.join(', '))}\n`;
}

function noRules(policy: string | undefined): string {
  return policy === undefined ? 'No rule is' : `No rule of a policy ${JSON.stringify(policy)} is`;
}

function fromTime(text: string): number {
  const from = toTime(text, Date.now());
  if (from !== null) return from;
  const shown = JSON.stringify(text);
  throw new CommandError(EXIT.usage, `--unused: ${shown}: must be as in 30d, or 2026-11-21T15:00:00Z`);
}

/** Asks all nodes; those that do not answer are named. */
async function ofAllNodes(
  { kubeconfig, node }: RulesOptions,
  query: URLSearchParams,
): Promise<readonly RuleCounts[]> {
  if (node !== undefined) throw new CommandError(EXIT.usage, 'give either --node or --all-nodes');
  return await withCluster(kubeconfig, async (request) => {
    const ask = async (one: string) => toRuleCounts(await askNode(request, one, 'counters', query));
    return [...(await askEach(await nodeNames(request), ask, sayFailed)).values()];
  });
}

async function printUnused(found: UnusedRules, { unused, output }: RulesOptions): Promise<void> {
  const { rules, tooYoung, all } = found;
  if (output === 'json') return await print(json(found));
  const header = ['direction', 'tier', 'policy/rule', 'action', 'last hit', 'counted since', 'nodes'];
  const rows = rules.map((row) => [
    ...kindOf(row),
    lastText(row),
    lastText({ lastHit: row.since }),
    String(row.nodes.length),
  ]);
  const within = typeof unused !== 'string' ? 'since they are counted' : inOrSince(unused);
  const said = `${rules.length} of ${all} rules: no packet matched ${within}.\n`;
  const young = `${tooYoung.length} more without a hit are counted for less time than that.\n`;
  await print(
    `${rules.length === 0 ? '' : `${table(header, rows)}\n`}${said}${tooYoung.length === 0 ? '' : young}`,
  );
}

function inOrSince(time: string): string {
  return /^\d+[smhd]$/.test(time) ? `in ${time}` : `since ${time}`;
}

export function lastText({ lastHit }: Pick<Count, 'lastHit'>): string {
  return lastHit === null ? 'never' : lastHit.replace(/\.\d+Z$/, 'Z');
}

type Kind = Pick<CountedRule, 'direction' | 'tier' | 'policy' | 'rule' | 'action' | 'mode' | 'traffic'>;

function kindOf({ direction, tier, policy, rule, action, mode, traffic }: Kind): string[] {
  return [
    traffic === 'Host' ? direction : `${direction} ${traffic}`,
    tier,
    `${policy}/${rule}`,
    mode === 'Audit' ? `${action} (audit)` : action,
  ];
}

function toTable(rules: readonly CountedRule[]): string {
  const header = ['#', 'direction', 'tier', 'policy/rule', 'action', 'packets', 'bytes', 'last hit'];
  const rows = rules.map((row, i) => [
    String(i + 1),
    ...kindOf(row),
    String(row.packets),
    String(row.bytes),
    lastText(row),
  ]);
  return table(header, rows);
}
