/**
 * Table `inet nodewall`, read from the kernel with nft inside the node's namespace, and the changes
 * that a change of the policy made in it.
 */
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
interface TableBlock {
  /** `chain input`. */
  readonly name: string;
  readonly lines: readonly string[];
}

/**
 * The blocks of a table's text as nft prints it, one tab before each block and two before its
 * lines.
 */
function toBlocks(text: string): Map<string, TableBlock> {
  const blocks = new Map<string, TableBlock>();
  for (const [, name, body] of text.matchAll(/^\t((?:chain|set|map) \S+) \{\n(.*?)^\t\}$/gms)) {
    if (name === undefined || body === undefined) continue;
    const lines = body.split('\n').map((line) => line.trim());
    blocks.set(name, { name, lines: lines.filter(Boolean) });
  }
  return blocks;
}

interface RuleChanges {
  /** The chains that policy rules have for their own, line by line. */
  readonly ruleLines: readonly LineChange[];
  /** Other objects that were added, changed or removed, by kind: `2 address sets`. */
  readonly others: readonly string[];
  /** Every changed line, each block under its name. */
  readonly allLines: readonly LineChange[];
}

export function ruleChanges(before: string, after: string): RuleChanges {
  const old = toBlocks(before);
  const fresh = toBlocks(after);
  const ruleLines: LineChange[] = [];
  const allLines: LineChange[] = [];
  const counts = new Map<string, number>();
  for (const name of [...old.keys(), ...[...fresh.keys()].filter((key) => !old.has(key))]) {
    const lines = blockChange(old.get(name), fresh.get(name));
    if (lines.length === 0) continue;
    allLines.push(...lines);
    if (isRuleChain(name)) ruleLines.push(...lines.map(withoutComment));
    else counts.set(nounOf(name), (counts.get(nounOf(name)) ?? 0) + 1);
  }
  const others = [...counts].map(([noun, count]) => `${count} ${noun}${count === 1 ? '' : 's'}`);
  return { ruleLines, others, allLines };
}

function blockChange(old: TableBlock | undefined, fresh: TableBlock | undefined): LineChange[] {
  const lines = changedLines(old?.lines ?? [], fresh?.lines ?? []);
  const name = fresh?.name ?? old?.name ?? '';
  if (old !== undefined && fresh !== undefined && lines.length === 0) return [];
  const sign = old === undefined ? '+' : fresh === undefined ? '-' : ' ';
  return [{ sign, line: name }, ...lines.map((one) => ({ ...one, line: `  ${one.line}` }))];
}

/** Direction, hash, policy and rule: `chain ingress-6c685219b1-protect-api-drop-rest`. */
function isRuleChain(name: string): boolean {
  return /^chain (ingress|egress)-[0-9a-f]{10}-/.test(name);
}

/** The chain's name says it already. */
function withoutComment({ sign, line }: LineChange): LineChange {
  return { sign, line: line.replace(/ comment ".*"$/, '') };
}

function nounOf(name: string): string {
  if (name.startsWith('set ')) return 'address set';
  return name.startsWith('map ') ? 'port map' : 'dispatch chain';
}

export interface LineChange {
  readonly sign: '+' | '-' | ' ';
  readonly line: string;
}

/** The shortest line diff of two short texts (longest common subsequence). */
export function lineDiff(before: readonly string[], after: readonly string[]): LineChange[] {
  // common[i][j]: how many lines before[i…] and after[j…] have in common.
  const common = Array.from({ length: before.length + 1 }, () => new Array<number>(after.length + 1).fill(0));
  const at = (i: number, j: number): number => common[i]?.[j] ?? 0;
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const row = common[i];
      if (row) row[j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const changes: LineChange[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    const old = before[i];
    const fresh = after[j];
    if (old !== undefined && old === fresh) {
      changes.push({ sign: ' ', line: old });
      i++;
      j++;
    } else if (old !== undefined && (fresh === undefined || at(i + 1, j) >= at(i, j + 1))) {
      changes.push({ sign: '-', line: old });
      i++;
    } else if (fresh !== undefined) {
      changes.push({ sign: '+', line: fresh });
      j++;
    }
  }
  return changes;
}

/** Only the lines that changed. */
export function changedLines(before: readonly string[], after: readonly string[]): LineChange[] {
  return lineDiff(before, after).filter(({ sign }) => sign !== ' ');
}
