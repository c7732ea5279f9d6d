import type { NodeState } from './compiled.ts';
import { formatMembers } from './memberset.ts';
import type { Message } from './wire.ts';

/** Stage 3: a node's view as messages, each AddressSet and ServiceSet before the rules that name it. */
export function* snapshot(state: NodeState): Iterable<Message> {
  yield { type: 'node', node: state.node, addresses: state.nodeAddresses, allNodes: state.allNodes };
  for (const { id, description, dynamic, names, members } of state.addressSets.values()) {
    yield {
      type: 'addressSet',
      id,
      description,
      dynamic,
      ...(names.length === 0 ? {} : { names }),
      members: formatMembers(members),
    };
  }
  for (const { id, description, members } of state.serviceSets.values()) {
    yield { type: 'serviceSet', id, description, members };
  }
  for (const rule of state.rules) yield { type: 'rule', rule };
  const { size } = state.serviceSets;
  yield {
    type: 'bookmark',
    rules: state.rules.length,
    addressSets: state.addressSets.size,
    ...(size === 0 ? {} : { serviceSets: size }),
  };
}
