/** The changes that a change of the policy made in the table, as lines to print. */
import { changedLines, type LineChange } from './line-diff.ts';
import { type TableBlock, toBlocks } from './rule-table.ts';

export interface RuleChanges {
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
