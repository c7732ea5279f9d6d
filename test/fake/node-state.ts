import type { MatchEntry, Peers } from '../../agent/render/index/match-entry.ts';
import { render } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { AddressSet, CompiledRule, NodeState, PortRange, RulePeer } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { parseAddress, parseCidr } from '../../lib/net/address.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { policy, type Rule } from '../kernel/manifests.ts';
import { toState } from '../properties/pipeline.ts';

/** What the Node `node-0` must enforce, in few words, for tests of what enforces it. */
export function nodeState(...objects: readonly object[]): NodeState {
  return toState([NODE, ...objects], 'node-0');
}

export function rulesetOf(objects: readonly object[], config: Config = DEFAULT_CONFIG): Ruleset {
  return render(nodeState(...objects), config);
}

/** A policy of ingress rules with priority 5. */
export function ingress(name: string, ...rules: readonly Rule[]): object {
  return policy(name, { ingress: rules });
}

/** A policy of one rule that closes TCP ports. */
export function closing(name: string, ...ports: readonly number[]): object {
  const rule = {
    name: 'close',
    action: 'Drop',
    ports: ports.map((port) => ({ protocol: 'TCP', port })),
  } as const;
  return ingress(name, rule);
}

/** Labelled `app`; its addresses are members of every set whose selector is that. */
export function pod(app: string, ...addresses: readonly string[]): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${app}-${addresses.join('-').replaceAll(/[.:]/g, '-')}`,
      namespace: 'default',
      labels: { app },
    },
    status: { podIPs: addresses.map((ip) => ({ ip })) },
  };
}

export function fromPods(app: string): object {
  return { podSelector: { matchLabels: { app } } };
}

const NODE = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'node-0', labels: {} },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};

/** Values of stage 2 in few words, for tests of what comes after it. */

type RuleChanges = Partial<Omit<CompiledRule, 'source'>> & {
  readonly source?: Partial<CompiledRule['source']>;
};

/** Rule `name` of policy `p`: an ingress rule that drops everything, save for what is said. */
export function compiledRule(name: string, { source, ...changes }: RuleChanges = {}): CompiledRule {
  return {
    id: name,
    source: {
      apiGroup: 'nodewall.io',
      policy: 'p',
      uid: '',
      generation: 0,
      direction: 'ingress',
      ruleIndex: 0,
      rule: name,
      ...source,
    },
    tier: 'application',
    tierPriority: 250,
    priority: 5,
    action: 'Drop',
    mode: 'Enforce',
    traffic: 'Host',
    peers: [{ kind: 'any' }],
    services: [],
    log: null,
    ...changes,
  };
}

/** The addresses of one AddressSet as peers. */
export function fromSet(set: string): readonly RulePeer[] {
  return [{ kind: 'addresses', set }];
}

export function addressSet(id: string, changes: Partial<AddressSet> = {}): AddressSet {
  return { id, description: id, dynamic: true, names: [], members: toMemberSet([], []), ...changes };
}

/** A node with these rules; its AddressSet of all nodes is empty. */
export function stateOf(rules: readonly CompiledRule[], changes: Partial<NodeState> = {}): NodeState {
  const nodes = addressSet('nodes', { description: 'nodes {}' });
  return {
    node: 'node-0',
    rules,
    addressSets: new Map([[nodes.id, nodes]]),
    serviceSets: new Map(),
    allNodes: nodes.id,
    controllers: '',
    apiServerPorts: [],
    nodeAddresses: [],
    ...changes,
  };
}

/** What the index knows of rules, in few words, for its tests. */

/** Peers named `key`: addresses and CIDRs as text. */
export function peersOf(key: string, ...members: readonly string[]): Peers {
  const cidrs = members.flatMap((text) => parseCidr(text)?.cidr ?? []);
  const addresses = members.filter((text) => parseAddress(text) !== null);
  return {
    key,
    members: toMemberSet(
      cidrs.map((cidr) => ({ cidr, except: [] })),
      addresses,
    ),
  };
}

interface Asked {
  /** Members of peers of its own, or other rules' peers; absent is anybody. */
  readonly from?: readonly string[] | Peers;
  /** Ports or ranges; absent is every port. */
  readonly ports?: readonly (number | PortRange)[];
  readonly final?: boolean;
  /** Source ports or ranges; absent is every port. */
  readonly sources?: readonly (number | PortRange)[];
}

/** A rule that ends its packets, in the chain of its name. */
export function item(id: string, { from, ports, sources, final = true }: Asked = {}): MatchEntry {
  const toRanges = (list: Asked['ports']): PortRange[] | null =>
    list?.map((port): PortRange => (typeof port === 'number' ? [port, port] : port)) ?? null;
  const peers = from === undefined ? null : 'key' in from ? from : peersOf(`peers of ${id}`, ...from);
  return { id, chain: id, peers, ranges: toRanges(ports), sources: toRanges(sources), final };
}

/** `length` rules: `rule 0`, `rule 1`, … */
export function items(length: number, asked: (index: number) => Asked): MatchEntry[] {
  return Array.from({ length }, (_, i) => item(`rule${i}`, asked(i)));
}

/** Without a failsafe list, so that rules alone decide. */
export const OPEN: Config = { ...DEFAULT_CONFIG, failsafe: { ingress: [], egress: [] } };

/** From outside to a web server on the node. */
export const FLOW: Flow = {
  direction: 'ingress',
  src: '198.51.100.7',
  dst: '192.0.2.1',
  protocol: 'tcp',
  srcPort: 40000,
  dstPort: 80,
};

/** The report of a node that has its view in force, but for what is said. */
export function nodeReport(
  node: string,
  revision: string | null,
  said: Partial<NodeReport> = {},
): NodeReport {
  return {
    node,
    revision,
    enforced: revision,
    enabled: true,
    failing: [],
    policies: 1,
    hostAddresses: [],
    version: '0.1.0',
    dataplane: 'nftables',
    time: '1970-01-01T00:00:00.000Z',
    ...said,
  };
}
