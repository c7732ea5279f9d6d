import { ruleText } from '../../agent/render/nfttext.ts';
import type {
  BaseChain,
  Chain,
  ChainVerdict,
  NamedSet,
  NftRule,
  PortMap,
  Ruleset,
  Statement,
} from '../../agent/render/ruleset.ts';
import { BITS, type Cidr } from '../../apis/address.ts';
import { splitTargets } from './nftrule.ts';
import type { FakeChain, FakeSet, FakeTable } from './table.ts';

/**
 * What the fake holds, as the tracer takes it. The rules are found by their text among those of `known`: the fake can't say more than it
 * was told.
 */
export function asRuleset(table: FakeTable | null, known: readonly Ruleset[]): Ruleset {
  if (table === null) return { chains: new Map(), sets: new Map(), maps: new Map() };
  const rules = new Map(
    known.flatMap(({ chains }) =>
      [...chains.values()].flatMap((chain) =>
        chain.rules.map((rule) => [keyOf(ruleText({ ...rule, comment: null })), rule] as const),
      ),
    ),
  );
  const names = new Map([...table.chains.values()].map(({ handle, name }) => [handle, name]));
  const all = [...table.sets.values()];
  return {
    chains: new Map([...table.chains.values()].map((chain) => [chain.name, toChain(chain, rules, names)])),
    sets: new Map(all.filter(({ keyLength }) => keyLength !== 2).map((set) => [set.name, toNamedSet(set)])),
    maps: new Map(
      all.filter(({ keyLength }) => keyLength === 2).map((set) => [set.name, toPortMap(set, names)]),
    ),
  };
}

function toChain(
  chain: FakeChain,
  known: ReadonlyMap<string, NftRule>,
  names: ReadonlyMap<number, string>,
): Chain {
  const { name, base } = chain;
  const rules = chain.rules.map(({ text, parts }): NftRule => {
    const rule = known.get(keyOf(text));
    if (rule === undefined) throw new Error(`chain ${name} has a rule of nobody: ${text}`);
    const chains = parts.flatMap((part) => (typeof part === 'number' ? (names.get(part) ?? []) : []));
    return { ...rule, statement: retarget(rule.statement, chains) };
  });
  return {
    name,
    base: base as BaseChain | null,
    fixed: false,
    rules,
    source: null,
    ruleId: null,
  };
}

/** The text whatever chains it leads to. */
function keyOf(text: string): string {
  return splitTargets(text)
    .map((part, i) => (i % 2 === 0 ? part : '*'))
    .join('');
}

/** The statement with other chains, in the order in which it names them. */
function retarget(statement: Statement, chains: readonly string[]): Statement {
  if ('chain' in statement) return { ...statement, chain: chains[0] ?? '?' };
  if (!('entries' in statement)) return statement;
  const entries = statement.entries.map(([key, verdict], i) => [
    key,
    { ...verdict, chain: chains[i] ?? '?' },
  ]);
  return { ...statement, entries } as unknown as Statement;
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

function toPortMap({ name, elements }: FakeSet, names: ReadonlyMap<number, string>): PortMap {
  const entries = [...elements]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([port, { verdict }]) => {
      if (verdict === null) return [];
      const target: ChainVerdict = { kind: verdict.kind, chain: names.get(verdict.chain) ?? '?' };
      return [[Number.parseInt(port, 16), target] as const];
    });
  return { name, entries: new Map(entries) };
}
