import { type Address, type Family, parseAddress } from '../../lib/net/address.ts';
import { hasMember, packAddress, unpackAddress } from '../../lib/net/member-set.ts';
import type { Dispatched } from '../render/index/build.ts';
import type { MatchEntry } from '../render/index/match-entry.ts';
import type { Chain } from '../render/ruleset.ts';
import { type ChainVerdict, mapKeyLength, type VerdictMap } from '../render/verdict-map.ts';

/** The fields of a packet that an index looks at. */
interface AimedPacket {
  readonly address: Address;
  readonly port: number;
  readonly sourcePort: number;
}

/** An address that no peer has; NO_PORT is likewise the port of no service. */
const NOBODY = parseAddress('0.0.0.0') as Address;
const NO_PORT = 0;

/**
 * A packet that the rule matches: from one of its peers, to one of its ports. Null if the rule's
 * set of peers is empty.
 */
export function aimAt({ peers, ranges, sources }: MatchEntry): AimedPacket | null {
  const ports = { port: ranges?.[0]?.[0] ?? NO_PORT, sourcePort: sources?.[0]?.[0] ?? NO_PORT };
  if (peers === null) return { address: NOBODY, ...ports };
  for (const { family, singles, prefixes } of [peers.members.v4, peers.members.v6]) {
    if (singles.length > 0) return { address: unpackAddress(family, singles, 0), ...ports };
    const [prefix] = prefixes;
    if (prefix !== undefined) return { address: { family, value: prefix.value }, ...ports };
  }
  return null;
}

/**
 * Walks packets through the chains and maps of one protocol's part of an index, as the kernel does.
 * The constructor throws if the part has no chain.
 */
export class IndexWalk {
  readonly #root: Chain;
  readonly #chains: ReadonlyMap<string, Chain>;
  readonly #maps: ReadonlyMap<string, VerdictMap>;
  readonly #items: ReadonlyMap<string, MatchEntry>;
  readonly #lookups = new Map<string, number>();

  constructor({ chains, maps }: Dispatched, items: readonly MatchEntry[]) {
    const [root] = chains;
    if (root === undefined) throw new Error('the rule index has no chain');
    this.#root = root;
    this.#chains = new Map(chains.map((chain) => [chain.name, chain]));
    this.#maps = new Map(maps.map((map) => [map.name, map]));
    this.#items = new Map(items.map((item) => [item.chain, item]));
  }

  /**
   * The rules that the packet is tested against, in order, up to the one that ends the search: a
   * final rule that it matches, or `end`. Throws if a map of the index is missing.
   */
  tested(packet: AimedPacket, end: MatchEntry | null = null): MatchEntry[] {
    const key = packAddress(packet.address);
    const packed = (port: number): Uint8Array => Uint8Array.of(port >> 8, port & 255);
    const [port, sourcePort] = [packed(packet.port), packed(packet.sourcePort)];
    const tested: MatchEntry[] = [];
    const enter = (name: string): boolean => {
      const chain = this.#chains.get(name);
      if (chain !== undefined) return walk(chain);
      const item = this.#items.get(name);
      if (item === undefined) throw new Error(`the rule index names no chain or rule ${name}`);
      tested.push(item);
      return item === end || (item.final && isFor(item, packet));
    };
    const found = (map: VerdictMap | undefined, bySource: boolean): ChainVerdict | null => {
      if (map === undefined) throw new Error('the rule index lacks a map');
      if (map.family !== null && map.family !== packet.address.family) return null;
      return lookUp(map, map.family !== null ? key : bySource ? sourcePort : port);
    };
    const walk = (chain: Chain): boolean => {
      for (const { statement } of chain.rules) {
        const verdict =
          statement.kind === 'portMap' || statement.kind === 'addressMap'
            ? found(this.#maps.get(statement.map), statement.field === 'sport')
            : toVerdict(statement);
        if (verdict === null) continue;
        if (enter(verdict.chain)) return true;
        if (verdict.kind === 'goto') return false;
      }
      return false;
    };
    walk(this.#root);
    return tested;
  }

  /** Upper bound of the map look-ups of one packet. */
  get lookups(): number {
    return Math.max(this.#lookupsFrom(this.#root, 4), this.#lookupsFrom(this.#root, 6));
  }

  #lookupsFrom(chain: Chain, family: Family): number {
    const key = `${family} ${chain.name}`;
    const known = this.#lookups.get(key);
    if (known !== undefined) return known;
    let most = 0;
    // From the last rule backwards: `most` is what a packet that reaches the rule still has ahead.
    for (const { statement } of [...chain.rules].reverse()) {
      if ('map' in statement) {
        if (statement.kind === 'addressMap' && statement.family !== family) continue;
        const verdicts = this.#maps.get(statement.map)?.verdicts ?? [];
        let hit = most;
        for (const verdict of verdicts) hit = Math.max(hit, this.#behind(verdict, most, family));
        most = 1 + hit;
      } else most = this.#behind(toVerdict(statement), most, family);
    }
    this.#lookups.set(key, most);
    return most;
  }

  #behind({ kind, chain }: ChainVerdict, rest: number, family: Family): number {
    const target = this.#chains.get(chain);
    const there = target === undefined ? 0 : this.#lookupsFrom(target, family);
    return kind === 'goto' ? there : there + rest;
  }
}

function isFor({ peers, ranges, sources }: MatchEntry, { address, port, sourcePort }: AimedPacket): boolean {
  const isIn = (one: number, list: MatchEntry['ranges']): boolean =>
    list === null || list.some(([first, last]) => first <= one && one <= last);
  return (
    (peers === null || hasMember(peers.members, address)) && isIn(port, ranges) && isIn(sourcePort, sources)
  );
}

function toVerdict(statement: Chain['rules'][number]['statement']): ChainVerdict {
  if (statement.kind === 'jump' || statement.kind === 'goto') return statement;
  throw new Error(`a rule index cannot contain the statement ${statement.kind}`);
}

/** Binary search for the last element that starts at the key or before it. */
function lookUp(map: VerdictMap, key: Uint8Array): ChainVerdict | null {
  const width = mapKeyLength(map);
  const step = map.interval ? 2 * width : width;
  const at = (offset: number): Uint8Array => map.keys.subarray(offset, offset + width);
  let low = 0;
  let high = map.targets.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Buffer.compare(at(middle * step), key) <= 0) low = middle + 1;
    else high = middle;
  }
  const i = low - 1;
  if (i < 0) return null;
  const last = at(i * step + (map.interval ? width : 0));
  const order = Buffer.compare(last, key);
  if (map.interval ? order < 0 : order !== 0) return null;
  return map.verdicts[map.targets[i] ?? 0] ?? null;
}
