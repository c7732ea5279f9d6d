import {
  type AddressSet,
  type CompiledRule,
  type NodeState,
  namedBy,
  type ServiceMember,
  type ServiceSet,
  type UnknownFields,
} from '../../apis/compiled.ts';
import { inEvaluationOrder } from '../../apis/order.ts';
import {
  type AddressSetMessage,
  type BookmarkMessage,
  type Message,
  type NodeMessage,
  type ServiceSetMessage,
  toCompiledRule,
} from '../../apis/wire.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { present } from '../../lib/sharing/present.ts';
import { MESSAGE_EXTENSION } from '../extension/messages.ts';
import { toMembers } from './patch.ts';

/**
 * Stage 4: folds messages to the state that the node must enforce. Throws if a snapshot is
 * incomplete or names a set that it doesn't hold: the caller keeps its previous state. Also reads
 * state files written by version 0.1.
 */
export function receive(messages: Iterable<Message>): NodeState {
  let node: NodeMessage | null = null;
  let complete = false;
  const addressSets = new Map<string, AddressSet>();
  const serviceSets = new Map<string, ServiceSet>();
  const rules: CompiledRule[] = [];
  const extension = MESSAGE_EXTENSION.draft({}, true);
  const isWhole = (bookmark: BookmarkMessage): boolean =>
    bookmark.rules === rules.length &&
    bookmark.addressSets === addressSets.size &&
    (bookmark.serviceSets ?? 0) === serviceSets.size &&
    MESSAGE_EXTENSION.lack(bookmark, extension.result()) === null;
  for (const message of messages) {
    // Messages after a bookmark take effect at the next one.
    complete = false;
    switch (message.type) {
      case 'node':
        node = message;
        break;
      case 'addressSet':
        addressSets.set(message.id, toAddressSet(message));
        break;
      case 'serviceSet':
        serviceSets.set(message.id, toServiceSet(message));
        break;
      case 'rule':
        rules.push(toCompiledRule(message.rule));
        break;
      case 'bookmark':
        complete = isWhole(message);
        break;
      default:
        extension.receive(message);
        break;
    }
  }
  if (node === null || !complete) throw new Error('the snapshot is not complete');
  const { allNodes, controllers = '', apiServerPorts = [] } = node;
  const named = namedBy(rules);
  requireHeld('AddressSet', failsafeSets({ allNodes, controllers }).concat(named.addressSets), addressSets);
  requireHeld('ServiceSet', named.serviceSets, serviceSets);
  return {
    node: node.node,
    rules: inEvaluationOrder(rules),
    addressSets,
    serviceSets,
    allNodes,
    controllers,
    apiServerPorts,
    nodeAddresses: node.addresses,
    ...extension.result(),
  };
}

/** The ids of the AddressSets that every node holds. */
export function failsafeSets({
  allNodes,
  controllers,
}: Pick<NodeState, 'allNodes' | 'controllers'>): readonly string[] {
  return controllers === '' ? [allNodes] : [allNodes, controllers];
}

function requireHeld(kind: string, ids: readonly string[], sets: ReadonlyMap<string, unknown>): void {
  for (const id of ids) {
    if (!sets.has(id)) throw new Error(`the snapshot refers to ${kind} ${id} but does not contain it`);
  }
}

/** Throws TypeError if a member is not an address. */
export function toServiceSet(message: ServiceSetMessage): ServiceSet {
  const { id, description, members } = message;
  for (const { address } of members) {
    if (parseAddress(address) === null) throw new TypeError(`ServiceSet ${id}: invalid address ${address}`);
  }
  const { unknown } = unknownFields(message);
  const isKnown = members.every((one) => Object.keys(one).length === 3 && PROTOCOLS.includes(one.protocol));
  // Members of another kind make the whole list one that this version does not know.
  const odd = isKnown ? unknown : { ...unknown, members };
  return { id, description, members, ...present({ unknown: odd }) };
}

/** Throws TypeError if a member is neither an address nor a CIDR. */
export function toAddressSet(message: AddressSetMessage): AddressSet {
  const { id, description, dynamic, names = [], members } = message;
  const found = toMembers(`AddressSet ${id}`, members);
  return { id, description, dynamic, names, members: found, ...unknownFields(message) };
}

const PROTOCOLS: readonly string[] = ['tcp', 'udp', 'sctp'] satisfies ServiceMember['protocol'][];

/** Fields of a set, and of the stream's messages. */
const SET_FIELDS: readonly string[] = 'type id description dynamic names members sequence revision'.split(
  ' ',
);

function unknownFields(message: object): { readonly unknown?: UnknownFields } {
  const found = Object.entries(message).filter(([field]) => !SET_FIELDS.includes(field));
  return found.length === 0 ? {} : { unknown: Object.fromEntries(found) };
}
