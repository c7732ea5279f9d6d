import { addAddresses } from '../lib/net/member-set.ts';
import type { AddressSet, NodeState } from './compiled.ts';

/** The current addresses of fqdn peers on one node. */
export interface NameTable {
  /**
   * The addresses of a peer: of one name, or of every name that a wildcard matches. `peer` is lower
   * case, without a trailing dot. The result is sorted, without duplicates.
   */
  addresses(peer: string): readonly string[];
}

/**
 * Returns a function that adds the addresses of fqdn peers to the AddressSets of a state. An
 * AddressSet whose addresses have not changed since the last call is the same object again; so is
 * the map if no set changed, so that later stages can skip it. Cost: the sets with names, and the
 * addresses of those that changed.
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
 * A table of names that do not change. A peer stands for the addresses of every name it matches; a
 * wildcard also for the addresses listed under the same wildcard. Names are lower case, without a
 * trailing dot; addresses are as formatAddress writes them.
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
 * Whether an fqdn peer matches a name; `*.example.com` matches one or more leading labels. Both are
 * lower case, without a trailing dot.
 */
export function matchesName(peer: string, name: string): boolean {
  if (!peer.startsWith('*.')) return peer === name;
  return name.endsWith(peer.slice(1)) && name.length > peer.length - 1;
}
