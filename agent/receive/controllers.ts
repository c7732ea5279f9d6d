import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { sameMembers, toMemberSet } from '../../lib/net/member-set.ts';

/**
 * The AddressSet's id if an older controller, or a state saved by an older agent, names no
 * AddressSet of the controllers.
 */
const UNNAMED = 'controllers';

/**
 * The state with these addresses as those of nodewall's controllers, for an agent that learnt them
 * from the API server while no controller answers. Returns the same state if the addresses are the
 * same; otherwise only the members of one AddressSet differ, and no rule changes.
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
