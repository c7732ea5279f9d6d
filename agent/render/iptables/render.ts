import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import type { Family } from '../../../lib/net/address.ts';
import { TreeIndexer } from '../index/tree.ts';
import { renderer } from '../render.ts';
import type { NamedSet, Ruleset, SetMembers } from '../ruleset.ts';
import { familyTables, type TranslationCache } from './family.ts';
import type { SetNames } from './fragment.ts';
import { ChainNames, type IpSet, type IptablesRuleset, toSetName } from './tables.ts';

/**
 * Stage 5 for the dataplane iptables, for a sequence of states: the same chains as for nftables,
 * with an index of chains only, translated to iptables. Equal states give equal values. Throws
 * RenderError, with its source, for a rule that can't be rendered.
 * @param canLog as for nftables
 */
export function iptablesRenderer(config: Config, canLog = true): (state: NodeState) => IptablesRuleset {
  const render = renderer(config, canLog, new TreeIndexer());
  const translate = translator();
  return (state) => translate(render(state));
}

/**
 * Translates a Ruleset to iptables. The Ruleset must have no maps: its index is a list or a tree of
 * chains, else throws an Error. Reuses earlier results for chains and sets that are the same
 * objects. Leaves out chains and sets that no rule of a family leads to. A change of members costs
 * a walk along the sets.
 */
function translator(): (ruleset: Ruleset) => IptablesRuleset {
  const cache: Readonly<Record<Family, TranslationCache>> = {
    4: { chains: new WeakMap(), tables: [] },
    6: { chains: new WeakMap(), tables: [] },
  };
  const names = new ChainNames();
  let last: Last | null = null;
  return (ruleset) => {
    const { chains, sets, maps } = ruleset;
    if (maps.size > 0) throw new Error('iptables has no verdict maps');
    if (last?.chains === chains && last.sets === sets) return last.made;
    const known = last?.sets === sets ? last.known : ipSets(sets, last);
    const setNames = new Map([...known].map(([{ name }, set]) => [name, set.name]));
    const isSame = last?.chains === chains && isSameMap(last.setNames, setNames);
    const found = isSame && last !== null ? last.found : translated({ chains, setNames });
    const used = [...known].filter(([{ name }]) => found.used.has(name)).map(([, set]) => set);
    used.sort((a, b) => (a.name < b.name ? -1 : 1));
    const made = { sets: new Map(used.map((set) => [set.name, set])), families: found.families };
    last = { chains, sets, known, setNames, found, made };
    return made;
  };

  function translated({ chains, setNames }: Pick<Last, 'chains' | 'setNames'>): Found {
    names.shrink(chains.size);
    const source = { chains, setNames, chainName: names.of };
    const [v4, v6] = [familyTables(source, 4, cache[4]), familyTables(source, 6, cache[6])];
    return { families: { 4: v4.tables, 6: v6.tables }, used: new Set([...v4.sets, ...v6.sets]) };
  }
}

interface Last extends Pick<Ruleset, 'chains' | 'sets'> {
  readonly known: ReadonlyMap<NamedSet, IpSet>;
  readonly setNames: SetNames;
  readonly found: Found;
  readonly made: IptablesRuleset;
}

interface Found extends Pick<IptablesRuleset, 'families'> {
  /** The sets that a rule names, by their names in the Ruleset. */
  readonly used: ReadonlySet<string>;
}

/**
 * Reuses an earlier object if it is the same, even if the comment differs, which ipset doesn't
 * have.
 */
function ipSets(sets: Ruleset['sets'], last: Last | null): ReadonlyMap<NamedSet, IpSet> {
  const before = new Map(last === null ? [] : [...last.known.values()].map((set) => [set.name, set]));
  const found = new Map<NamedSet, IpSet>();
  for (const set of sets.values()) {
    const made = last?.known.get(set) ?? toIpSet(set);
    const same = before.get(made.name);
    found.set(set, same?.members === made.members ? same : made);
  }
  return found;
}

function isSameMap(a: SetNames, b: SetNames): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}

/**
 * A match of iptables looks up the packet's address, whatever it is: in place of one element such a
 * set has all addresses.
 */
const EVERYTHING: Readonly<Record<Family, SetMembers>> = {
  4: { singles: new Uint8Array(), prefixes: [{ family: 4, value: 0n, length: 0 }] },
  6: { singles: new Uint8Array(), prefixes: [{ family: 6, value: 0n, length: 0 }] },
};

/** Converts a set of the Ruleset to an ipset. */
export function toIpSet(set: NamedSet): IpSet {
  const type = typeOf(set);
  const { family, timeout } = set;
  if (timeout !== undefined)
    return { name: toSetName(set, type), family, type, members: EVERYTHING[family], timeout: timeout / 1000 };
  return { name: toSetName(set, type), family, type, members: set.members };
}

/**
 * A hash:ip of the kernel can't hold the unspecified address (ip_set_hash_ip.c), but a hash:net
 * can.
 */
function typeOf({ key, family, members }: NamedSet): IpSet['type'] {
  if (key === 'service') return 'hash:ip,port';
  const { singles, prefixes } = members;
  const width = family === 4 ? 4 : 16;
  // The members are sorted, so it would be the first.
  const hasUnspecified = singles.length > 0 && singles.subarray(0, width).every((byte) => byte === 0);
  return prefixes.length > 0 || hasUnspecified ? 'hash:net' : 'hash:ip';
}
