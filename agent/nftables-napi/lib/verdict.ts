import type { Binding } from './binding.ts';

/** The value of an element of a verdict map. */
export type Verdict =
  | { kind: 'jump' | 'goto'; chain: string }
  | { kind: 'accept' | 'drop' | 'continue' | 'return' };

/** Each different verdict once, and for every element which of them it has. */
export interface VerdictTable {
  verdictOf: Uint32Array;
  verdictCodes: Int32Array;
  verdictChains: string[];
}

/** Packs verdicts for the addon. Throws TypeError for an unknown kind or a jump without a chain. */
export function toVerdictTable(verdicts: readonly Verdict[], binding: Binding): VerdictTable {
  const known = new Map<string, number>();
  const codes: number[] = [];
  const chains: string[] = [];
  const verdictOf = Uint32Array.from(verdicts, (verdict) => {
    const chain = 'chain' in verdict ? verdict.chain : '';
    const key = `${verdict.kind} ${chain}`;
    let index = known.get(key);
    if (index === undefined) {
      index = codes.length;
      codes.push(toCode(verdict, chain, binding));
      chains.push(chain);
      known.set(key, index);
    }
    return index;
  });
  return { verdictOf, verdictCodes: Int32Array.from(codes), verdictChains: chains };
}

function toCode(verdict: Verdict, chain: unknown, binding: Binding): number {
  if (!Object.hasOwn(binding.verdicts, verdict.kind))
    throw new TypeError(`unknown verdict ${String(verdict.kind)}`);
  const jumps = verdict.kind === 'jump' || verdict.kind === 'goto';
  if (jumps !== (typeof chain === 'string' && chain !== '')) {
    throw new TypeError(`verdict ${verdict.kind} ${jumps ? 'needs a chain' : 'has no chain'}`);
  }
  return binding.verdicts[verdict.kind] | 0; // jump and goto are negative: the header's numbers come unsigned
}

/** The verdict of each element. Equal verdicts are one object. Throws Error for a code nf_tables doesn't use in maps. */
export function toVerdicts(table: VerdictTable, binding: Binding): Verdict[] {
  const kinds = new Map(Object.entries(binding.verdicts).map(([kind, code]) => [code | 0, kind]));
  const distinct = Array.from(table.verdictCodes, (code, index): Verdict => {
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
