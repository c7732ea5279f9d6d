import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { sameMembers, toMemberSet } from '../../lib/net/member-set.ts';

/**
 * Stands in where an older controller, or what an older agent saved, names no AddressSet of the
 * controllers.
 */
const UNNAMED = 'controllers';

/**
 * The state with these as the addresses of nodewall's controllers, for an agent that learnt them
 * elsewhere while no controller answers. The same state where they are what they were; else another
 * member of one AddressSet, and no other rule.
 */
export function withControllers(state: NodeState, addresses: Iterable<string>): NodeState {
  const id = state.controllers === '' ? UNNAMED : state.controllers;
  const before: Omit<AddressSet, 'members'> & Partial<AddressSet> = state.addressSets.get(id) ?? {
    id,
    description: 'controllers',
    dynamic: true,
    names: [],
  };
  const members = toMemberSet([], addresses);
  const isSame =
    before.members !== undefined &&
    sameMembers(before.members.v4, members.v4) &&
    sameMembers(before.members.v6, members.v6);
  if (isSame) return state;
  const addressSets = new Map(state.addressSets);
  addressSets.set(id, { ...before, members });
  return {
    ...state,
    controllers: id,
    addressSets: new Map([...addressSets].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
