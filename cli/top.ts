import { setTimeout as pause } from 'node:timers/promises';
import { ruleCounts, ruleKey } from '../agent/inspect/rule-counts.ts';
import { wholeNumber } from '../agent/record/record-filter.ts';
import { type CountedRule, type RuleCounts, toRuleCounts } from '../apis/rule-counts.ts';
import { askEach, askNode, nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { loadConfig } from './load.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { json, table, watched } from './output.ts';

interface TopOptions extends OfNode, MachineOptions, Printed<'table' | 'json'> {
  readonly allNodes: boolean;
  readonly kubeconfig?: string;
  readonly policy?: string;
  readonly interval: string;
  readonly all: boolean;
  readonly watch: boolean;
}

/** A rule's matches in the interval, on all nodes together. */
interface Matched {
  readonly rule: CountedRule;
  readonly packets: number;
  readonly bytes: number;
  /** Those where it matched, the most packets first. */
  readonly nodes: readonly string[];
}

type Reading = ReadonlyMap<string, RuleCounts>;

/** `nodewall top`: the rules that match most now. Exit status 3 if no node answers. */
export async function topCommand(options: TopOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const seconds = wholeNumber('--interval', options.interval);
  if (seconds === 0) throw new CommandError(EXIT.usage, '--interval: "0": must be at least 1');
  return await reading(options, (read) =>
    watched(options.watch, async (show) => {
      const before = await read();
      await pause(seconds * 1000);
      const matched = difference(before, await read(), options.all);
      if (before.size === 0) return EXIT.refused;
      await show(
        options.output === 'json' ? ratesJson(matched, seconds) : ratesText(matched, seconds, options),
      );
      return EXIT.done;
    }),
  );
}

function ratesJson(matched: readonly Matched[], seconds: number): string {
  return json(
    matched.map(({ rule, packets, bytes, nodes }) => ({
      policy: rule.policy,
      rule: rule.rule,
      direction: rule.direction,
      traffic: rule.traffic,
      action: rule.action,
      mode: rule.mode,
      nodes,
      packetsPerSecond: packets / seconds,
      bytesPerSecond: bytes / seconds,
    })),
  );
}

function ratesText(matched: readonly Matched[], seconds: number, { all }: TopOptions): string {
  if (matched.length > 0) return toTable(matched, seconds);
  return `No rule ${all ? '' : 'that drops or rejects '}matched a packet in ${seconds} s.\n`;
}

/** Calls `run` with a function that reads the counters of all nodes that are asked for. */
async function reading(
  { node, allNodes, kubeconfig, stateDir, policy }: TopOptions,
  run: (read: () => Promise<Reading>) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  if (node === undefined && !allNodes)
    return await run(async () => {
      const counts = await ruleCounts(stateDir, policy);
      return new Map([[counts.node, counts]]);
    });
  const query = new URLSearchParams(policy === undefined ? {} : { policy });
  return await withCluster(kubeconfig, async (request) => {
    const nodes = node === undefined ? await nodeNames(request) : [node];
    return await run(() =>
      askEach(nodes, async (one) => toRuleCounts(await askNode(request, one, 'counters', query)), sayFailed),
    );
  });
}

/** By what they matched; of other rules only with `isAll`. A rule that is new counts from 0. */
function difference(before: Reading, after: Reading, isAll: boolean): Matched[] {
  const found = new Map<
    string,
    { rule: CountedRule; packets: number; bytes: number; on: [string, number][] }
  >();
  for (const [node, { rules }] of after) {
    const earlier = new Map(before.get(node)?.rules.map((rule) => [rule.id, rule]));
    for (const rule of before.has(node) ? rules : []) {
      if (!isAll && rule.action !== 'Drop' && rule.action !== 'Reject') continue;
      const { packets: was = 0, bytes: had = 0 } = earlier.get(rule.id) ?? {};
      const packets = rule.packets - was;
      if (packets <= 0) continue;
      const key = ruleKey(rule);
      const known = found.get(key) ?? { rule, packets: 0, bytes: 0, on: [] };
      known.packets += packets;
      known.bytes += rule.bytes - had;
      known.on.push([node, packets]);
      found.set(key, known);
    }
  }
  return [...found.values()]
    .map(({ on, ...rest }) => ({ ...rest, nodes: on.sort((a, b) => b[1] - a[1]).map(([node]) => node) }))
    .sort((a, b) => b.packets - a.packets);
}

/** Nodes that are named in a line. */
const MOST_NODES = 3;

function toTable(matched: readonly Matched[], seconds: number): string {
  const rows = matched.map(({ rule, packets, bytes, nodes }) => {
    const left = nodes.length - MOST_NODES;
    return [
      (packets / seconds).toFixed(1),
      (bytes / seconds).toFixed(0),
      rule.mode === 'Audit' ? `${rule.action} (audit)` : rule.action,
      rule.traffic === 'Host' ? rule.direction : `${rule.direction} ${rule.traffic}`,
      `${rule.policy}/${rule.rule}`,
      `${nodes.slice(0, MOST_NODES).join(', ')}${left > 0 ? ` and ${left} more` : ''}`,
    ];
  });
  return table(['packets/s', 'bytes/s', 'action', 'direction', 'policy/rule', 'nodes'], rows);
}
