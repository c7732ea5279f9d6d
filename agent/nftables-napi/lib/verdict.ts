import type { Binding } from './binding.ts';

/** The value of an element of a verdict map. */
export type MapVerdict =
  | { kind: 'jump' | 'goto'; chain: string }
  | { kind: 'accept' | 'drop' | 'continue' | 'return' };

/**
 * Verdicts as the addon reads them: each distinct verdict once, and per element the index of its
 * verdict.
 */
export interface VerdictTable {
  verdictOf: Uint32Array;
  verdictCodes: Int32Array;
  verdictChains: string[];
}

/**
 * Returns each distinct verdict once, and per element the index of its verdict. Throws a RangeError
 * if the number of verdicts and elements differs, or an index is out of range.
 */
export function toVerdictTable(
  verdicts: readonly MapVerdict[],
  verdictOf: Uint32Array | undefined,
  count: number,
): { distinct: readonly MapVerdict[]; verdictOf: Uint32Array } {
  const given = verdictOf ?? verdicts;
  if (given.length !== count) throw new RangeError(`${given.length} verdicts for ${count} elements`);
  if (verdictOf !== undefined) {
    for (const index of verdictOf) {
      if (index >= verdicts.length) throw new RangeError(`verdictOf: there is no verdict ${index}`);
    }
    return { distinct: verdicts, verdictOf };
  }
  const known = new Map<string, number>();
  const distinct: MapVerdict[] = [];
  const indices = Uint32Array.from(verdicts, (verdict) => {
    const key = `${verdict.kind} ${'chain' in verdict ? verdict.chain : ''}`;
    const index = known.get(key) ?? distinct.push(verdict) - 1;
    known.set(key, index);
    return index;
  });
  return { distinct, verdictOf: indices };
}

/**
 * The verdict of each element; equal verdicts are one object. Throws an Error for a code that
 * nf_tables does not use in maps.
 */
export function toVerdicts(table: VerdictTable, binding: Binding): MapVerdict[] {
  const kinds = new Map(Object.entries(binding.verdicts).map(([kind, code]) => [code | 0, kind]));
  const distinct = Array.from(table.verdictCodes, (code, index): MapVerdict => {
    const kind = kinds.get(code);
    switch (kind) {
      case 'jump':
      case 'goto':
        return { kind, chain: table.verdictChains[index] ?? '' };
      case 'accept':
      case 'drop':
      case 'continue':
      case 'return':
        return { kind };
      default:
        throw new Error(`unknown verdict code ${code} in a map`);
    }
  });
  return Array.from(table.verdictOf, (index) => {
    const verdict = distinct[index];
    if (!verdict) throw new Error(`verdict ${index} is missing`);
    return verdict;
  });
}
