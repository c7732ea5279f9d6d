import type { Family } from '../../../apis/address.ts';
import type { NamedSet, Ruleset } from '../ruleset.ts';
import { familyTables, type Kept } from './family.ts';
import { ChainNames } from './name.ts';
import { toIpSet } from './sets.ts';
import type { IpSet, IptablesRuleset } from './tables.ts';

/**
 * The Ruleset in iptables' words. It must be without maps: its index is a list or a tree of chains. Takes over from one time to the next what was made of chains and
 * sets that are the same objects; nothing of a chain or set that no rule leads to in a family is in it.
 */
export function translator(): (ruleset: Ruleset) => IptablesRuleset {
  const kept: Readonly<Record<Family, Kept>> = {
    4: { drafts: new WeakMap(), tables: [] },
    6: { drafts: new WeakMap(), tables: [] },
  };
  const names = new ChainNames();
  let known = new Map<NamedSet, IpSet>();
  let last: { readonly of: Ruleset; readonly is: IptablesRuleset } | null = null;
  return (ruleset) => {
    if (last !== null && last.of.chains === ruleset.chains && last.of.sets === ruleset.sets) return last.is;
    if (ruleset.maps.size > 0) throw new Error('iptables has no verdict maps');
    const ofLast = last?.is.sets;
    known = new Map(
      [...ruleset.sets.values()].map((set) => [set, known.get(set) ?? sameSet(toIpSet(set), ofLast)]),
    );
    const setNames = new Map([...known].map(([{ name }, set]) => [name, set.name]));
    names.shrink(ruleset.chains.size);
    const source = { chains: ruleset.chains, setNames, chainName: names.of };
    const [v4, v6] = [familyTables(source, 4, kept[4]), familyTables(source, 6, kept[6])];
    const used = [...known].filter(([{ name }]) => v4.sets.has(name) || v6.sets.has(name));
    const sets = used.map(([, set]) => set).sort((a, b) => (a.name < b.name ? -1 : 1));
    const is: IptablesRuleset = {
      sets: new Map(sets.map((set) => [set.name, set])),
      families: { 4: v4.tables, 6: v6.tables },
    };
    last = { of: ruleset, is };
    return is;
  };
}

/** The object of the last time, where it is the same but for its comment, which ipset does not have. */
function sameSet(set: IpSet, last: ReadonlyMap<string, IpSet> | undefined): IpSet {
  const before = last?.get(set.name);
  return before?.members === set.members ? before : set;
}
