import type { BaseChain, Chain, NamedSet, Ruleset } from '../../agent/render/ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../../agent/render/verdict-map.ts';
import { BITS, type Cidr } from '../../lib/net/address.ts';
import { chainNames, currentRule, type FakeChain, type FakeSet, type FakeTable } from './table.ts';

/** What the fake holds, as the tracer takes it. */
export function asRuleset(table: FakeTable | null): Ruleset {
  if (table === null) return { chains: new Map(), sets: new Map(), maps: new Map() };
  const names = chainNames(table);
  const all = [...table.sets.values()];
  const chains = [...table.chains.values()].map((chain): [string, Chain] => [
    chain.name,
    toChain(chain, names),
  ]);
  const sets = all
    .filter(({ isMap }) => !isMap)
    .map((set): [string, NamedSet] => [set.name, toNamedSet(set)]);
  const maps = all
    .filter(({ isMap }) => isMap)
    .map((set): [string, VerdictMap] => [set.name, toVerdictMap(set, names)]);
  return { chains: new Map(chains), sets: new Map(sets), maps: new Map(maps) };
}

function toChain({ name, base, rules }: FakeChain, names: ReadonlyMap<number, string>): Chain {
  return {
    name,
    base: base as BaseChain | null,
    fixed: false,
    rules: rules.map((rule) => currentRule(rule, names)),
    source: null,
    ruleId: null,
  };
}

function toNamedSet({ name, keyLength, interval, comment, elements }: FakeSet): NamedSet {
  const family = keyLength === 4 || keyLength === 12 ? 4 : 6;
  const key = keyLength === 4 || keyLength === 16 ? 'address' : 'service';
  const ranges = [...elements].map(
    ([first, { last }]) => [BigInt(`0x${first}`), BigInt(`0x${last}`)] as const,
  );
  const prefixes = ranges
    .filter(([first, last]) => first !== last)
    .map(
      ([first, last]): Cidr => ({
        family,
        value: first,
        length: BITS[family] - (last - first).toString(2).length,
      }),
    );
  const singles = [...elements].flatMap(([first, { last }]) => (first === last ? first : []));
  return {
    name,
    family,
    key,
    interval,
    comment: comment ?? '',
    members: {
      singles: new Uint8Array(Buffer.from(singles.sort().join(''), 'hex')),
      prefixes: prefixes.sort((a, b) => (a.value < b.value ? -1 : 1)),
    },
  };
}

function toVerdictMap(
  { name, keyLength, interval, elements, key = keyLength === 2 ? 'port' : 'address' }: FakeSet,
  names: ReadonlyMap<number, string>,
): VerdictMap {
  const sorted = [...elements].sort(([a], [b]) => (a < b ? -1 : 1));
  const hex = sorted.map(([first, { last }]) => (interval ? first + last : first)).join('');
  const verdicts = sorted.flatMap(([, { verdict }]): ChainVerdict[] =>
    verdict === null ? [] : [{ kind: verdict.kind, chain: names.get(verdict.chain) ?? '?' }],
  );
  return {
    name,
    key,
    family: key === 'port' || key === 'mark' ? null : keyLength === 4 || keyLength === 12 ? 4 : 6,
    interval,
    fixed: false,
    keys: new Uint8Array(Buffer.from(hex, 'hex')),
    targets: Uint32Array.from(verdicts, (_, i) => i),
    verdicts,
  };
}
