import type { Cluster, ClusterNode } from './cluster.ts';
import { toServicesTest } from './endpoint.ts';
import type { Names, OracleConfig, Packet } from './flow.ts';
import { groupSelectsNode } from './group.ts';
import {
  type AppliedToManifest,
  apiGroupOf,
  assertOnlyFields,
  objectsOfKind,
  type PolicyManifest,
  policyApiVersions,
  type RuleManifest,
} from './manifest.ts';
import { selects } from './member.ts';
import { baselinePriority, compareOrder, findTier, type OrderKey } from './order.ts';
import { namesPod, type PeerTest, toPeersTest } from './peer.ts';
import { matchesServices } from './service.ts';

/** A rule that applies to the Node, in its place. */
export interface OracleRule extends OrderKey {
  direction: 'ingress' | 'egress';
  traffic: 'Host' | 'NodePort';
  isAudit: boolean;
  tier: string;
  manifest: RuleManifest;
  /** undefined = any address. */
  peers: PeerTest | undefined;
  /** Whether a peer is a pod, by whatever selects it, or a single address. */
  namesPods: boolean;
  /** undefined = the rule has no `toServices`. */
  toServices: PeerTest | undefined;
}

/** What rules are read against. */
export interface RuleContext {
  objects: readonly object[];
  cluster: Cluster;
  node: ClusterNode;
  config: OracleConfig;
  names: Names;
}

/** The rules of both directions that apply to the Node, in evaluation order. */
export function toRules(context: RuleContext): OracleRule[] {
  const { objects, cluster } = context;
  const policies = objectsOfKind(objects, policyApiVersions, 'ClusterNetworkPolicy') as PolicyManifest[];
  const rules = policies.flatMap((policy) => {
    assertKnownPolicy(policy);
    const tier = findTier(objects, policy);
    const apiGroup = apiGroupOf(policy.apiVersion);
    return (['ingress', 'egress'] as const).flatMap((direction) =>
      (policy.spec[direction] ?? []).flatMap((manifest, ruleIndex): OracleRule[] => {
        assertKnownRule(manifest, direction, policy);
        if (manifest.action === 'Pass' && tier.priority === baselinePriority) {
          throw new Error(`${policy.metadata.name}: Pass in the baseline tier`);
        }
        if (!appliesTo(policy, manifest, context)) return [];
        const peers = direction === 'ingress' ? manifest.from : manifest.to;
        const toServices = manifest.toServices ?? [];
        return [
          {
            tierPriority: tier.priority,
            tier: tier.name,
            priority: policy.spec.priority,
            policy: policy.metadata.name,
            apiGroup,
            ruleIndex,
            direction,
            traffic: policy.spec.traffic === 'NodePort' ? 'NodePort' : 'Host',
            isAudit: policy.spec.mode === 'Audit',
            manifest,
            peers: toPeersTest(peers, { ...context, apiGroup }),
            namesPods: (peers ?? []).some((peer) => namesPod(peer, objects, apiGroup)),
            toServices: toServices.length > 0 ? toServicesTest(toServices, cluster.services) : undefined,
          },
        ];
      }),
    );
  });
  return rules.sort(compareOrder);
}

/** True when the packet is of the rule's direction, traffic, peers and services. */
export function matches(rule: OracleRule, packet: Packet): boolean {
  return (
    rule.direction === packet.direction &&
    rule.traffic === packet.traffic &&
    (rule.peers === undefined || rule.peers(packet)) &&
    (rule.toServices === undefined || rule.toServices(packet)) &&
    matchesServices(rule.manifest, packet)
  );
}

function appliesTo(policy: PolicyManifest, rule: RuleManifest, context: RuleContext): boolean {
  const atPolicy = policy.spec.appliedTo ?? [];
  const items = atPolicy.length > 0 ? atPolicy : (rule.appliedTo ?? []);
  // Every item is looked at, so that none that can't be evaluated hides behind one that matches.
  return items.map((item) => selectsNode(item, apiGroupOf(policy.apiVersion), context)).includes(true);
}

function selectsNode(item: AppliedToManifest, apiGroup: string, { objects, node }: RuleContext): boolean {
  assertOnlyFields(item, ['nodeSelector', 'group'], 'appliedTo[]');
  const { nodeSelector, group } = item;
  if ((nodeSelector === undefined) === (group === undefined)) {
    throw new Error('an item of appliedTo that names not exactly one thing');
  }
  if (group !== undefined) return groupSelectsNode(objects, group, apiGroup, node.labels);
  return selects(nodeSelector ?? {}, node.labels);
}

/** Fields that only our own objects have: section 1 marks them with a plus. */
function isOurs({ apiVersion }: PolicyManifest): boolean {
  return apiVersion === policyApiVersions[0];
}

function assertKnownPolicy(policy: PolicyManifest): void {
  const { metadata, spec } = policy;
  const plus = isOurs(policy) ? ['mode', 'traffic', 'established'] : [];
  const fields = ['tier', 'priority', 'appliedTo', 'ingress', 'egress', ...plus];
  assertOnlyFields(spec, fields, `${metadata.name}: spec`);
  assertOneOf(spec.mode ?? 'Enforce', ['Enforce', 'Audit'], 'mode');
  assertOneOf(spec.traffic ?? 'Host', ['Host', 'NodePort'], 'traffic');
  // Says nothing of new connections.
  assertOneOf(spec.established ?? 'Keep', ['Keep', 'Recheck'], 'established');
  if (spec.traffic === 'NodePort' && (spec.egress ?? []).length > 0) {
    throw new Error(`${metadata.name}: egress rules for NodePort traffic`);
  }
}

function assertKnownRule(rule: RuleManifest, direction: 'ingress' | 'egress', policy: PolicyManifest): void {
  const peers = direction === 'ingress' ? 'from' : 'to';
  const logging = ['enableLogging', 'logLabel'];
  const fields = ['name', 'action', peers, 'ports', 'protocols', 'toServices', 'appliedTo', ...logging];
  assertOnlyFields(rule, fields, 'rule');
  assertOneOf(rule.action, ['Allow', 'Drop', 'Reject', 'Pass'], 'action');
  const names = (list: object[] | undefined, field: string) =>
    (list ?? []).some((item) => Object.hasOwn(item, field));
  const hasServices = (rule.toServices ?? []).length > 0;
  if (direction === 'ingress' && (hasServices || names(rule.from, 'fqdn'))) {
    throw new Error('the oracle does not evaluate fqdn and toServices on ingress');
  }
  const others = [rule.to, rule.ports, rule.protocols];
  if (hasServices && others.some((list) => (list ?? []).length > 0)) {
    throw new Error('the oracle does not evaluate toServices beside to, ports or protocols');
  }
  if (!isOurs(policy) && (names(rule[peers], 'interfaceGroup') || names(rule.protocols, 'icmpv6'))) {
    throw new Error(`the oracle does not evaluate fields of ours in ${policy.apiVersion}`);
  }
}

function assertOneOf(value: string, known: string[], field: string): void {
  if (!known.includes(value)) throw new Error(`the oracle does not evaluate the ${field} ${value}`);
}
