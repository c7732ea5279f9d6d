import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { CONTROLLER_PORT } from '../../apis/control-plane.ts';
import { formatMembers, sameMembers, toMemberSet } from '../../lib/net/member-set.ts';
import type { Destination } from './destinations.ts';

/**
 * The AddressSet's id if an older controller, or a state saved by an older agent, names no
 * AddressSet of the controllers.
 */
const UNNAMED = 'controllers';

/**
 * Where the controllers' pods serve, ready or not, as a controller sent them.
 * @param seen addresses that the API server named since no controller answers: where all of them
 *   are new pods, and kube-proxy of this node does not know it yet, no other leads to one
 */
export function controllersOf(
  state: NodeState | null,
  seen: readonly string[] | null = null,
): readonly Destination[] {
  const known = state?.addressSets.get(state.controllers);
  const sent = known === undefined ? [] : formatMembers(known.members);
  return [...new Set([...(seen ?? []), ...sent])].map((host) => ({ host, port: CONTROLLER_PORT }));
}

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
