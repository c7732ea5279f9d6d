/** Reads table `inet nodewall` from the kernel, with nft inside the node's namespace. */
import type { Namespace } from '../../test/netns/namespace.ts';

/**
 * Packets by `policy/rule`, which is the comment of a policy rule's nft rules; a rule has one in
 * each family.
 */
export type Counters = ReadonlyMap<string, number>;

/** Empty where there is no table. */
export async function readCounters(node: Namespace): Promise<Counters> {
  const counters = new Map<string, number>();
  const { status, stdout } = await nft(node, ['-j', 'list', 'table', 'inet', 'nodewall']);
  if (status !== 0) return counters;
  for (const { rule } of JSON.parse(stdout).nftables) {
    if (rule?.comment === undefined) continue;
    for (const { counter } of rule.expr) {
      if (counter === undefined) continue;
      counters.set(rule.comment, (counters.get(rule.comment) ?? 0) + counter.packets);
    }
  }
  return counters;
}

/** The rules that counted since, and how many packets. */
export function countedSince(before: Counters, after: Counters): { rule: string; packets: number }[] {
  return [...after]
    .map(([rule, packets]) => ({ rule, packets: packets - (before.get(rule) ?? 0) }))
    .filter(({ packets }) => packets !== 0);
}

/** The table's text without counter values; '' where there is none. */
export async function readRules(node: Namespace): Promise<string> {
  const { status, stdout } = await nft(node, ['-s', 'list', 'table', 'inet', 'nodewall']);
  return status === 0 ? stdout : '';
}

function nft(node: Namespace, options: readonly string[]) {
  return node.run(['nft', ...options], { anyStatus: true });
}

/** A chain, set or map of the table. */
export interface TableBlock {
  /** `chain input`. */
  readonly name: string;
  readonly lines: readonly string[];
}

/**
 * The blocks of a table's text as nft prints it, one tab before each block and two before its
 * lines.
 */
export function toBlocks(text: string): Map<string, TableBlock> {
  const blocks = new Map<string, TableBlock>();
  for (const [, name, body] of text.matchAll(/^\t((?:chain|set|map) \S+) \{\n(.*?)^\t\}$/gms)) {
    if (name === undefined || body === undefined) continue;
    const lines = body.split('\n').map((line) => line.trim());
    blocks.set(name, { name, lines: lines.filter(Boolean) });
  }
  return blocks;
}
