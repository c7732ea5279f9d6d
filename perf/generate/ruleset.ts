/**
 * A set of ingress rules as a benchmark makes it: what it says in a cluster's objects, and in bare
 * addresses for other firewalls.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NODE_NAME, RULES_A_POLICY } from './cluster.ts';
import { listText, policyFile, yamlText } from './manifests.ts';

export type RuleAction = 'Allow' | 'Drop' | 'Reject';

/** Both ends included. */
export interface PortSpan {
  readonly from: number;
  readonly to: number;
}

/** Whom a rule is for; null is everyone. */
export type PeerList =
  | { readonly kind: 'blocks'; readonly cidrs: readonly string[]; readonly except?: string }
  /** Every label must be there. */
  | { readonly kind: 'pods'; readonly labels: Labels }
  | { readonly kind: 'nodes'; readonly labels: Labels };

export type Labels = Readonly<Record<string, string>>;

export interface GeneratedRule {
  readonly action: RuleAction;
  readonly peer: PeerList | null;
  /** null: of every protocol, and then without ports. */
  readonly protocol: 'TCP' | 'UDP' | 'SCTP' | 'ICMP' | null;
  readonly ports: PortSpan | null;
  readonly sourcePorts: PortSpan | null;
}

/** A pod or a node. */
export interface Member {
  readonly labels: Labels;
  readonly addresses: readonly string[];
}

export interface RuleSet {
  readonly name: string;
  /**
   * In their order; the last is the only one that matches the client's connections, and allows
   * them.
   */
  readonly rules: readonly GeneratedRule[];
  readonly pods: readonly Member[];
  readonly nodes: readonly Member[];
  readonly connection: Connection;
}

/**
 * What a benchmark opens: TCP, from an address of test/netns/topology.ts's first client to the
 * Node's first.
 */
export interface Connection {
  readonly source: string;
  readonly destination: string;
  readonly port: number;
}

/**
 * As administrators would have it, ten rules a policy, in JSON Lists; writes `nodes.json`,
 * `pods.json`, `policies.json`.
 */
export async function writeRuleSet(folder: string, set: RuleSet): Promise<void> {
  await mkdir(folder, { recursive: true });
  const files = { nodes: nodeObjects(set), pods: podObjects(set), policies: policyObjects(set) };
  for (const [name, objects] of Object.entries(files))
    if (objects.length > 0) await writeFile(join(folder, `${name}.json`), listText(objects));
}

/** The same as YAML: a file for the nodes, one for the pods, and one for each policy. */
export async function writeYamlFiles(folder: string, set: RuleSet): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'nodes.yaml'), yamlText(nodeObjects(set)));
  await writeFile(join(folder, 'pods.yaml'), `# pods\n${yamlText(podObjects(set))}`);
  for (const [i, policy] of policyObjects(set).entries())
    await writeFile(join(folder, policyFile(i)), yamlText([policy]));
}

/** All objects of the set. */
export function clusterObjects(set: RuleSet): object[] {
  return [...nodeObjects(set), ...podObjects(set), ...policyObjects(set)];
}

function nodeObjects({ nodes, connection }: RuleSet): object[] {
  const own = { labels: { role: 'control-plane' }, addresses: [connection.destination] };
  return [own, ...nodes].map(({ labels, addresses }, i) => {
    const name = i === 0 ? NODE_NAME : `worker-${i}`;
    return {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } },
      status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
    };
  });
}

function podObjects({ pods }: RuleSet): object[] {
  return pods.map(({ labels, addresses }, i) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `pod-${i}`, namespace: 'shop', labels },
    spec: { nodeName: `worker-${1 + (i % 500)}`, serviceAccountName: 'default' },
    status: { phase: 'Running', podIP: addresses[0], podIPs: addresses.map((ip) => ({ ip })) },
  }));
}

function policyObjects({ rules }: RuleSet): object[] {
  return Array.from({ length: Math.ceil(rules.length / RULES_A_POLICY) }, (_, index) => {
    const first = index * RULES_A_POLICY;
    const own = rules.slice(first, first + RULES_A_POLICY);
    return {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: `policy-${String(index).padStart(5, '0')}` },
      spec: {
        tier: 'application',
        priority: 1 + index,
        appliedTo: [{ nodeSelector: { matchLabels: { role: 'control-plane' } } }],
        ingress: own.map((rule, i) => ruleObject(rule, first + i)),
      },
    };
  });
}

/** Of the rule with this place in the order. */
export function ruleName(index: number): string {
  return `rule-${index}`;
}

function ruleObject({ action, peer, protocol, ports, sourcePorts }: GeneratedRule, index: number): object {
  const port = {
    protocol,
    ...(ports === null ? {} : { port: ports.from }),
    ...(ports === null || ports.to === ports.from ? {} : { endPort: ports.to }),
    ...(sourcePorts === null ? {} : { sourcePort: sourcePorts.from }),
    ...(sourcePorts === null || sourcePorts.to === sourcePorts.from ? {} : { sourceEndPort: sourcePorts.to }),
  };
  return {
    name: ruleName(index),
    action,
    ...(peer === null ? {} : { from: peerObjects(peer) }),
    ...(protocol === 'ICMP' ? { protocols: [{ icmp: {} }] } : protocol === null ? {} : { ports: [port] }),
  };
}

function peerObjects(peer: PeerList): object[] {
  switch (peer.kind) {
    case 'blocks':
      return peer.cidrs.map((cidr) => ({
        ipBlock: { cidr, ...(peer.except === undefined ? {} : { except: [peer.except] }) },
      }));
    case 'pods':
      return [{ podSelector: { matchLabels: peer.labels } }];
    case 'nodes':
      return [{ nodeSelector: { matchLabels: peer.labels } }];
  }
}

/**
 * The addresses and prefixes that each rule's peers stand for, in the rules' order; null is
 * everyone. Blocks with `except` are not resolved: an error.
 */
export function sourcesOf({ rules, pods, nodes }: RuleSet): (readonly string[] | null)[] {
  const resolved = new Map<string, readonly string[]>();
  const find = (peer: PeerList): readonly string[] => {
    if (peer.kind === 'blocks') {
      if (peer.except !== undefined) throw new Error('blocks with exceptions have no plain list');
      return peer.cidrs;
    }
    const wanted = Object.entries(peer.labels);
    const all = peer.kind === 'pods' ? pods : nodes;
    return all
      .filter(({ labels }) => wanted.every(([key, value]) => labels[key] === value))
      .flatMap(({ addresses }) => addresses);
  };
  return rules.map(({ peer }) => {
    if (peer === null) return null;
    const key = JSON.stringify(peer);
    const found = resolved.get(key) ?? find(peer);
    resolved.set(key, found);
    return found;
  });
}
