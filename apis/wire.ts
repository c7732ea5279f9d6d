import type { CompiledRule, NodeState, ServiceMember } from './compiled.ts';

/**
 * Stage 3's values: what a node is told, one JSON document a line. A snapshot is a `node` message,
 * every AddressSet and ServiceSet before the rules that name it, and a `bookmark`, before which a
 * receiver acts on nothing. The same lines are the agent's last-good state on disk.
 */
export type Message = NodeMessage | AddressSetMessage | ServiceSetMessage | RuleMessage | BookmarkMessage;

export interface NodeMessage {
  readonly type: 'node';
  readonly node: string;
  readonly addresses: readonly string[];
  /** Id of the AddressSet of all nodes. */
  readonly allNodes: string;
  /** Id of the AddressSet of nodewall's own controllers; absent in what an older version wrote. */
  readonly controllers?: string;
  /** Of the endpoints of Service default/kubernetes, sorted; absent is none known. */
  readonly apiServerPorts?: readonly number[];
}

/** What of a node's state is neither a set nor a rule. */
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
  /** fqdn peers; absent is none. */
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
  readonly rule: CompiledRule;
}

/** The snapshot is complete. */
export interface BookmarkMessage {
  readonly type: 'bookmark';
  readonly rules: number;
  readonly addressSets: number;
  /** Absent is none. */
  readonly serviceSets?: number;
}
