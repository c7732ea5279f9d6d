import type { CompiledRule, NodeState, ServiceMember } from './compiled.ts';
import { namedBy, type RulePeer } from './rule-peer.ts';

/**
 * Values of stage 3: the messages for a node, one JSON document per line. A snapshot is a `node`
 * message, every AddressSet and ServiceSet before the rules that name it, and a `bookmark`; a
 * receiver acts only at the bookmark. The agent's state store holds the same lines.
 */
export type Message = NodeMessage | AddressSetMessage | ServiceSetMessage | RuleMessage | BookmarkMessage;

export interface NodeMessage {
  readonly type: 'node';
  readonly node: string;
  readonly addresses: readonly string[];
  /** Id of the AddressSet of all nodes. */
  readonly allNodes: string;
  /** Id of the AddressSet of nodewall's own controllers; absent in messages from older versions. */
  readonly controllers?: string;
  /** TCP ports of the endpoints of Service default/kubernetes, sorted; absent: none known. */
  readonly apiServerPorts?: readonly number[];
}

/** The part of a node's state that is neither a set nor a rule. */
export function nodeMessage({
  node,
  nodeAddresses: addresses,
  allNodes,
  controllers,
  apiServerPorts,
}: Pick<NodeState, 'node' | 'nodeAddresses' | 'allNodes' | 'controllers' | 'apiServerPorts'>): NodeMessage {
  return {
    type: 'node',
    node,
    addresses,
    allNodes,
    ...(controllers === '' ? {} : { controllers }),
    ...(apiServerPorts.length === 0 ? {} : { apiServerPorts }),
  };
}

export interface AddressSetMessage {
  readonly type: 'addressSet';
  readonly id: string;
  readonly description: string;
  readonly dynamic: boolean;
  /** The fqdn peers; absent: none. */
  readonly names?: readonly string[];
  /** CIDRs and addresses, sorted. */
  readonly members: readonly string[];
}

export interface ServiceSetMessage {
  readonly type: 'serviceSet';
  readonly id: string;
  readonly description: string;
  readonly members: readonly ServiceMember[];
}

export interface RuleMessage {
  readonly type: 'rule';
  readonly rule: WrittenRule;
}

/** A rule as it is sent, saved and printed: a list for each kind of peer; all empty: any peer. */
export type WrittenRule = ReturnType<typeof toWrittenRule>;

export function toWrittenRule({ peers, services, log, ...rule }: CompiledRule) {
  return { ...rule, ...namedBy([{ peers }]), services, log };
}

/** The defaults stand for what version 0.1 did not write. */
export function toCompiledRule({ services, log = null, ...written }: WrittenRule): CompiledRule {
  const { addressSets, interfaceGroups: groups = [], serviceSets = [], ...rule } = written;
  const peers: RulePeer[] = groups.length === 0 ? [] : [{ kind: 'interfaces', groups }];
  for (const set of addressSets) peers.push({ kind: 'addresses', set });
  for (const set of serviceSets) peers.push({ kind: 'services', set });
  return { ...rule, peers: peers.length === 0 ? [{ kind: 'any' }] : peers, services, log };
}

/** The end of a snapshot, with the number of rules and sets in it. */
export interface BookmarkMessage {
  readonly type: 'bookmark';
  readonly rules: number;
  readonly addressSets: number;
  /** Absent: none. */
  readonly serviceSets?: number;
}
