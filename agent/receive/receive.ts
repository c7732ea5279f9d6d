import { parseCidr } from '../../apis/address.ts';
import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { toMemberSet } from '../../apis/memberset.ts';
import { inEvaluationOrder } from '../../apis/order.ts';
import type { AddressSetMessage, Message, NodeMessage } from '../../apis/wire.ts';

/**
 * Stage 4: messages folded to what the node must enforce. Throws where a snapshot is cut short or names what it doesn't hold:
 * the caller keeps what it had.
 */
export function receive(messages: Iterable<Message>): NodeState {
  let node: NodeMessage | null = null;
  let complete = false;
  const addressSets = new Map<string, AddressSet>();
  const rules: CompiledRule[] = [];
  for (const message of messages) {
    // What comes after a bookmark waits for the next.
    complete = false;
    switch (message.type) {
      case 'node':
        node = message;
        break;
      case 'addressSet':
        addressSets.set(message.id, toAddressSet(message));
        break;
      case 'rule':
        rules.push(message.rule);
        break;
      case 'bookmark':
        complete = message.rules === rules.length && message.addressSets === addressSets.size;
        break;
    }
  }
  if (node === null || !complete) throw new Error('the snapshot is not complete');
  for (const id of [node.allNodes, ...rules.flatMap((rule) => rule.addressSets)]) {
    if (!addressSets.has(id)) throw new Error(`the snapshot names AddressSet ${id} and does not hold it`);
  }
  return {
    node: node.node,
    rules: inEvaluationOrder(rules),
    addressSets,
    allNodes: node.allNodes,
    nodeAddresses: node.addresses,
  };
}

function toAddressSet({ id, description, dynamic, members }: AddressSetMessage): AddressSet {
  const blocks = members.flatMap((text) => {
    if (!text.includes('/')) return [];
    const parsed = parseCidr(text);
    if (parsed === null) throw new TypeError(`AddressSet ${id}: ${text} is no CIDR`);
    return [{ cidr: parsed.cidr, except: [] }];
  });
  const addresses = members.filter((text) => !text.includes('/'));
  return { id, description, dynamic, members: toMemberSet(blocks, addresses) };
}
