import { formatMembers } from '../lib/net/member-set.ts';
import {
  type AddressSet,
  type CompiledRule,
  type NodeState,
  namedBy,
  type PortMatch,
  type RulePeer,
  type ServiceMember,
  type ServiceSet,
} from './compiled.ts';
import { type EgressWholeMessage, egressMessage, egressObjects, egressSize } from './egress/messages.ts';

/**
 * Values of stage 3: the messages for a node, one JSON document per line. A snapshot is a `node`
 * message, every AddressSet and ServiceSet before the rules that name it, and a `bookmark`; a
 * receiver acts only at the bookmark. The agent's state store holds the same lines.
 */
export type Message =
  | NodeMessage
  | AddressSetMessage
  | ServiceSetMessage
  | { readonly type: 'rule'; readonly rule: WrittenRule }
  | EgressWholeMessage
  | BookmarkMessage;

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

export function addressSetMessage({
  id,
  description,
  dynamic,
  names,
  members,
  unknown,
}: AddressSet): AddressSetMessage {
  const named = names.length === 0 ? {} : { names };
  const known = { id, description, dynamic, ...named, members: formatMembers(members) };
  return { type: 'addressSet', ...known, ...unknown };
}

export interface ServiceSetMessage {
  readonly type: 'serviceSet';
  readonly id: string;
  readonly description: string;
  readonly members: readonly ServiceMember[];
}

export function serviceSetMessage({ id, description, members, unknown }: ServiceSet): ServiceSetMessage {
  return { type: 'serviceSet', id, description, members, ...unknown };
}

/** A rule as it is sent, saved and printed: a list for each kind of peer; all empty: any peer. */
export type WrittenRule = ReturnType<typeof toWrittenRule>;

export function toWrittenRule({ peers, services, log, unsupported: _, ...rule }: CompiledRule) {
  return { ...rule, ...namedBy([{ peers }]), services, log };
}

/**
 * The defaults stand for what version 0.1 did not write. Fields that this version does not know
 * stay in the rule, so that a state file still has them after an upgrade.
 */
export function toCompiledRule({ services, log = null, ...written }: WrittenRule): CompiledRule {
  const { addressSets, interfaceGroups: groups = [], serviceSets = [], ...rule } = written;
  const unsupported = unsupportedParts(rule, services);
  const peers: RulePeer[] = groups.length === 0 ? [] : [{ kind: 'interfaces', groups }];
  for (const set of addressSets) peers.push({ kind: 'addresses', set });
  for (const set of serviceSets) peers.push({ kind: 'services', set });
  return {
    ...rule,
    peers: peers.length === 0 ? [{ kind: 'any' }] : peers,
    services,
    log,
    ...(unsupported.length === 0 ? {} : { unsupported }),
  };
}

type PlainFields = Omit<CompiledRule, 'peers' | 'services' | 'log' | 'unsupported'>;

/** The fields of a written rule besides lists and log, with the values of those that have few. */
const PLAIN_FIELDS: { readonly [field in keyof PlainFields]: readonly PlainFields[field][] | null } = {
  id: null,
  source: null,
  tier: null,
  tierPriority: null,
  priority: null,
  action: ['Allow', 'Drop', 'Reject', 'Pass'],
  mode: ['Enforce', 'Audit'],
  traffic: ['Host', 'NodePort'],
};
const SERVICE_FIELDS: { readonly [protocol in PortMatch['protocol'] & string]: readonly string[] } = {
  tcp: ['ports', 'sourcePorts'],
  udp: ['ports', 'sourcePorts'],
  sctp: ['ports', 'sourcePorts'],
  icmp: ['type', 'code'],
  icmpv6: ['type', 'code'],
  igmp: ['type', 'group'],
};
/** For a protocol by its number. */
const NUMBER_FIELDS: readonly string[] = ['group'];

function unsupportedParts(rule: Pick<CompiledRule, 'source'>, services: readonly PortMatch[]): string[] {
  const found: string[] = [];
  const { direction } = rule.source;
  if (direction !== 'ingress' && direction !== 'egress') found.push(`direction ${JSON.stringify(direction)}`);
  for (const [field, value] of Object.entries(rule)) {
    const values = known<readonly unknown[] | null>(PLAIN_FIELDS, field);
    if (values === undefined) found.push(`field ${JSON.stringify(field)}`);
    else if (values !== null && !values.includes(value)) found.push(`${field} ${JSON.stringify(value)}`);
  }
  for (const { protocol, ...match } of services) {
    const isNumber = typeof protocol === 'number' && Number.isInteger(protocol);
    const fields = isNumber ? NUMBER_FIELDS : known(SERVICE_FIELDS, String(protocol));
    if (fields === undefined) found.push(`protocol ${JSON.stringify(protocol)}`);
    for (const field of Object.keys(match)) {
      if (fields?.includes(field) === false) found.push(`field ${JSON.stringify(field)} of a port match`);
    }
  }
  return found;
}

function known<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** The end of a snapshot, with the number of rules and sets in it. */
export interface BookmarkMessage {
  readonly type: 'bookmark';
  readonly rules: number;
  readonly addressSets: number;
  /** Absent: none. */
  readonly serviceSets?: number;
  /** The members and entries of egress gateways; absent: the node has none. */
  readonly egress?: number;
}

/**
 * Stage 3: a node's view as messages. Each AddressSet and ServiceSet comes before the rules that
 * name it.
 */
export function* snapshot(state: NodeState): Iterable<Message> {
  for (const { toMessage } of parts(state)) yield toMessage();
}

/**
 * Returns a function that formats the messages of successive states as lines. Lines are cached by
 * JavaScript object, so that after an edit only what it changed is formatted, also among 10,000
 * rules.
 */
export function snapshotText(): (state: NodeState) => string {
  const known = new WeakMap<object, string>();
  return (state) => {
    const lines: string[] = [];
    for (const { of, toMessage } of parts(state)) {
      let line = of === null ? undefined : known.get(of);
      if (line === undefined) {
        line = `${JSON.stringify(toMessage())}\n`;
        if (of !== null) known.set(of, line);
      }
      lines.push(line);
    }
    return lines.join('');
  };
}

/**
 * A message that is made on demand, and the object that it contains whole; null if it describes the
 * state as a whole.
 */
interface Part {
  readonly of: object | null;
  readonly toMessage: () => Message;
}

function* parts(state: NodeState): Iterable<Part> {
  const { addressSets, serviceSets, rules, egress } = state;
  yield { of: null, toMessage: () => nodeMessage(state) };
  for (const set of addressSets.values()) yield { of: set, toMessage: () => addressSetMessage(set) };
  for (const set of serviceSets.values()) yield { of: set, toMessage: () => serviceSetMessage(set) };
  for (const rule of rules)
    yield { of: rule, toMessage: () => ({ type: 'rule', rule: toWrittenRule(rule) }) };
  if (egress !== undefined) {
    yield { of: null, toMessage: () => egressMessage(egress) };
    yield* egressObjects(egress);
  }
  const counts = {
    rules: rules.length,
    addressSets: addressSets.size,
    ...(egress === undefined ? {} : { egress: egressSize(egress) }),
  };
  const { size } = serviceSets;
  yield {
    of: null,
    toMessage: () => ({ type: 'bookmark', ...counts, ...(size === 0 ? {} : { serviceSets: size }) }),
  };
}
