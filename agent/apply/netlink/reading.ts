import type { Elements, TableSnapshot } from 'nftables-napi';
import { BITS, type Cidr, type Family, WIDTH } from '../../../lib/net/address.ts';
import { toCidrs } from '../../../lib/net/interval.ts';
import { unpackAddress } from '../../../lib/net/member-set.ts';
import {
  type Chain,
  KEY_LENGTH,
  matchedSet,
  type NamedSet,
  type NftRule,
  type Ruleset,
  targets,
} from '../../render/ruleset.ts';
import { type ChainVerdict, mapKeyLength, type VerdictMap } from '../../render/verdict-map.ts';
import type { Command } from '../plan/command.ts';
import {
  type CurrentChain,
  type CurrentMap,
  type CurrentSet,
  type CurrentState,
  EMPTY_STATE,
} from '../plan/current-state.ts';
import type { Kernel } from './kernel.ts';

/**
 * The current state of the kernel and its generation. It holds for a later generation too, if
 * nobody committed since.
 */
export interface TableReading {
  readonly current: CurrentState;
  /** Digests of all chains, by name (see chainDigest). */
  readonly digests: ReadonlyMap<string, string>;
  readonly generation: number;
}

/**
 * @param vouched returns the chain of this name if the digest of its rules shows that the kernel
 * holds it, else null
 */
export async function readCurrentState(
  kernel: Kernel,
  vouched: (name: string, digest: string) => Chain | null,
): Promise<TableReading> {
  const generation = await kernel.generation();
  const table = await kernel.snapshot();
  if (table === null) return { current: EMPTY_STATE, digests: new Map(), generation };
  // A chain bound to a rule (`jump { … }`) is added and removed with that rule.
  const own = table.chains.filter(({ name }) => !name.startsWith('__chain'));
  const digests = new Map(own.map(({ name, rules }) => [name, chainDigest(rules)]));
  const chains = own.map(({ name, base }): [string, CurrentChain] => [
    name,
    { ...(vouched(name, digests.get(name) ?? '') ?? UNKNOWN), base: base as CurrentChain['base'] },
  ]);
  const sets: [string, CurrentSet][] = [];
  const maps: [string, CurrentMap][] = [];
  for (const { name, isMap, isInterval, isAnonymous, hasTimeout, keyLength } of table.sets) {
    if (isAnonymous) continue;
    const timed = hasTimeout && !isMap && !isInterval ? kindOf(keyLength) : null;
    if (timed !== null) {
      sets.push([name, { ...timed, interval: false, members: NO_MEMBERS, timed: true }]);
      continue;
    }
    const found = await kernel.elements(name);
    if (isMap) maps.push([name, toCurrentMap(found, isInterval)]);
    else sets.push([name, toCurrentSet(found, isInterval)]);
  }
  return {
    generation: table.generation,
    digests,
    current: {
      table: true,
      dormant: table.isDormant,
      chains: new Map(chains),
      sets: new Map(sets),
      maps: new Map(maps),
      handles: new Map(own.map(({ name, handle }) => [name, handle])),
    },
  };
}

const UNKNOWN = { rules: null } as const;
const NO_MEMBERS = { singles: new Uint8Array(), prefixes: [] } as const;

type Rules = TableSnapshot['chains'][number]['rules'];

/** Covers all rules of a chain. */
export function chainDigest(rules: Rules): string {
  return rules.map(({ digest }) => digest).join(' ');
}

function toCurrentSet(found: Elements | null, interval: boolean): CurrentSet {
  const kind = kindOf(found?.keyLength);
  if (found === null || kind === null) return { family: null, key: 'address', interval, members: null };
  if (found.hasCatchAll) return { ...kind, interval, members: null };
  if (!interval) return { ...kind, interval, members: { singles: found.keys, prefixes: [] } };
  const members = kind.key === 'address' ? toSinglesAndPrefixes(kind.family, found.ranges) : null;
  return { ...kind, interval, members };
}

/** Null if a range is not a prefix: no set of ours has one. */
function toSinglesAndPrefixes(family: Family, ranges: Uint8Array): CurrentSet['members'] {
  const singles: Uint8Array[] = [];
  const prefixes: Cidr[] = [];
  const width = WIDTH[family];
  for (let at = 0; at < ranges.length; at += 2 * width) {
    const first = unpackAddress(family, ranges, at).value;
    const last = unpackAddress(family, ranges, at + width).value;
    const [cidr, ...others] = toCidrs(family, { first, last });
    if (cidr === undefined || others.length > 0) return null;
    if (cidr.length === BITS[family]) singles.push(ranges.subarray(at, at + width));
    else prefixes.push(cidr);
  }
  return { singles: Buffer.concat(singles), prefixes };
}

/** Each kind of key has a length of its own. */
function kindOf(keyLength: number | undefined): Pick<NamedSet, 'key' | 'family'> | null {
  for (const key of ['address', 'service'] as const) {
    for (const family of [4, 6] as const) if (KEY_LENGTH[key][family] === keyLength) return { key, family };
  }
  return null;
}

/** The keys of our maps, by length in bytes. */
const MAP_KEYS: ReadonlyMap<number, Pick<VerdictMap, 'key' | 'family'>> = new Map(
  (
    [
      { key: 'port', family: null },
      { key: 'address', family: 4 },
      { key: 'address', family: 6 },
      { key: 'addressMac', family: 4 },
      { key: 'addressMac', family: 6 },
    ] as const
  ).map((keys) => [mapKeyLength(keys), keys]),
);

function toCurrentMap(found: Elements | null, interval: boolean): CurrentMap {
  const kind = MAP_KEYS.get(found?.keyLength ?? 0);
  const unknown = { interval, keys: null, targets: new Uint32Array(), verdicts: [] };
  if (found?.verdicts === undefined || kind === undefined) return { ...unknown, key: 'other', family: null };
  const numbers = new Map<object, number>();
  const verdicts: ChainVerdict[] = [];
  const targets = new Uint32Array(found.verdicts.length);
  for (const [i, verdict] of found.verdicts.entries()) {
    if (!('chain' in verdict)) return { ...unknown, ...kind };
    // Equal verdicts are the same object.
    const number = numbers.get(verdict) ?? verdicts.push(verdict) - 1;
    numbers.set(verdict, number);
    targets[i] = number;
  }
  if (found.hasCatchAll) return { ...unknown, ...kind };
  return { ...kind, interval, keys: interval ? found.ranges : found.keys, targets, verdicts };
}

/**
 * A shadow copy of a desired chain, which nothing leads to. If it has the same digest as the
 * unknown chain of that name, that chain has the desired rules.
 */
interface ShadowCopy {
  readonly name: string;
  readonly chain: Chain;
}

/**
 * Shadow copies for all chains whose rules are unknown but may be the desired ones: all objects
 * that the desired rules name exist.
 */
export function shadowCopies({ current }: TableReading, { chains }: Ruleset): ShadowCopy[] {
  const found: ShadowCopy[] = [];
  let number = 0;
  for (const chain of chains.values()) {
    const there = current.chains.get(chain.name);
    if (there === undefined || there.rules !== null) continue;
    if (!chain.rules.every((rule) => isComplete(rule, current))) continue;
    while (current.chains.has(`probe-${number}`)) number++;
    found.push({ name: `probe-${number++}`, chain });
  }
  return found;
}

function isComplete({ matches, statement }: NftRule, { chains, sets, maps }: CurrentState): boolean {
  return (
    targets(statement).every((name) => chains.has(name)) &&
    (!('map' in statement) || maps.has(statement.map)) &&
    matches.every((match) => {
      const set = matchedSet(match);
      return set === null || sets.has(set);
    })
  );
}

export function addShadowCopies(list: readonly ShadowCopy[]): Command[] {
  return list.flatMap(({ name, chain }): Command[] => [
    { kind: 'addChain', chain: { ...chain, name, base: null } },
    ...chain.rules.map((rule): Command => ({ kind: 'addRule', chain: name, rule, source: chain.source })),
  ]);
}

export function removeShadowCopies(list: readonly ShadowCopy[]): Command[] {
  return [
    ...list.map(({ name }): Command => ({ kind: 'flushChain', name })),
    ...list.map(({ name }): Command => ({ kind: 'deleteChain', name })),
  ];
}

/** The reading, with the chains that the digests of the shadow copies identify. */
export function recognize(
  reading: TableReading,
  list: readonly ShadowCopy[],
  copies: readonly { readonly name: string; readonly rules: Parameters<typeof chainDigest>[0] }[],
): TableReading {
  const digests = new Map(copies.map(({ name, rules }) => [name, chainDigest(rules)]));
  const chains = new Map(reading.current.chains);
  for (const { name, chain } of list) {
    const base = chains.get(chain.name)?.base ?? null;
    if (digests.get(name) === reading.digests.get(chain.name)) chains.set(chain.name, { ...chain, base });
  }
  return { ...reading, current: { ...reading.current, chains } };
}
