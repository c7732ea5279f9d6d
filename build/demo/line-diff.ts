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
