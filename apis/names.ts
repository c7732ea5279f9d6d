import { addAddresses } from '../lib/net/member-set.ts';
import type { AddressSet, NodeState } from './compiled.ts';

/** What fqdn peers stand for on one node, now. */
export interface NameTable {
  /**
   * The addresses of a peer: of a name, or of every name that a wildcard matches; lower case,
   * without a trailing dot. Sorted, unique.
   */
  addresses(peer: string): readonly string[];
}

/**
 * Adds to the AddressSets what their fqdn peers stand for. An AddressSet whose addresses are what
 * they were the last time is the same object again, and so is the map of them where all are, so
 * that later stages need not look at it. Cost: the sets with names, and the addresses of those that
 * changed.
 */
export function nameResolver(): (state: NodeState, table: NameTable) => NodeState {
  const known = new Map<string, { base: AddressSet; addresses: string; resolved: AddressSet }>();
  let last: { base: NodeState['addressSets']; sets: NodeState['addressSets'] } | null = null;
  return (state, table) => {
    const resolved = new Map<string, AddressSet>();
    let changed = last?.base !== state.addressSets;
    for (const [id, base] of state.addressSets) {
      if (base.names.length === 0) continue;
      const addresses = base.names.flatMap((name) => table.addresses(name));
      const text = addresses.join();
      let entry = known.get(id);
      if (entry?.base !== base || entry.addresses !== text) {
        changed = true;
        entry = {
          base,
          addresses: text,
          resolved: { ...base, members: addAddresses(base.members, addresses) },
        };
      }
      known.set(id, entry);
      resolved.set(id, entry.resolved);
    }
    for (const id of known.keys()) if (!resolved.has(id)) known.delete(id);
    if (resolved.size === 0) return state;
    if (changed || last === null) {
      const sets = new Map([...state.addressSets].map(([id, set]) => [id, resolved.get(id) ?? set]));
      last = { base: state.addressSets, sets };
    }
    return { ...state, addressSets: last.sets };
  };
}

/**
 * A table of names that don't change: a peer stands for the addresses of every name it matches, and
 * for those of a wildcard that is written as the peer is. Names lower case, without a trailing dot;
 * addresses as formatAddress writes them.
 */
export function fixedNames(addresses: ReadonlyMap<string, readonly string[]>): NameTable {
  return {
    addresses(peer) {
      const named = [...addresses].filter(([name]) => name === peer || isMatched(peer, name));
      return [...new Set(named.flatMap(([, found]) => found))].sort();
    },
  };
}

function isMatched(peer: string, name: string): boolean {
  return !name.startsWith('*.') && matchesName(peer, name);
}

/**
 * Whether an fqdn peer stands for a name; `*.example.com` for one or more leading labels. Both
 * lower case, without a trailing dot.
 */
export function matchesName(peer: string, name: string): boolean {
  if (!peer.startsWith('*.')) return peer === name;
  return name.endsWith(peer.slice(1)) && name.length > peer.length - 1;
}
