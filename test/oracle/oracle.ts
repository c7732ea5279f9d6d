import type { Answer } from './answer.ts';
import type { Cluster, ClusterNode } from './cluster.ts';
import { toCluster } from './cluster.ts';
import type { OracleConfig } from './config.ts';
import { toExemptionTest } from './exemption.ts';
import { toFailsafeTest } from './failsafe.ts';
import type { Flow, Packet } from './flow.ts';
import { toPacket } from './flow.ts';
import type { AppliedToManifest, PolicyManifest, RuleManifest } from './manifest.ts';
import { apiGroupOf, assertOnlyFields, objectsOfKind, policyApiVersions } from './manifest.ts';
import type { OrderKey } from './order.ts';
import { compareOrder, findTier } from './order.ts';
import type { AddressTest } from './peer.ts';
import { toPeersTest } from './peer.ts';
import { selects } from './selector.ts';
import { matchesServices, namesServices } from './service.ts';

export type { Answer } from './answer.ts';
export { sameAnswer } from './answer.ts';
export type { OracleConfig } from './config.ts';
export type { Flow } from './flow.ts';

/** What the oracle judges by: parsed manifests, the Node's name, the agent's configuration. */
export interface OracleInput {
  objects: readonly object[];
  node: string;
  config?: object;
}

interface OracleRule extends OrderKey {
  direction: 'ingress' | 'egress';
  tier: string;
  manifest: RuleManifest;
  /** undefined = any address. */
  peers: AddressTest | undefined;
}

/**
 * Evaluates SEMANTICS.md straight from the manifests: slow, plain, sharing nothing with the implementation.
 * The objects are taken to be valid. Throws on what it does not evaluate; nothing is ignored.
 */
export function oracle(input: OracleInput): (flow: Flow) => Answer {
  const config = (input.config ?? {}) as OracleConfig;
  const cluster = toCluster(input.objects);
  const node = cluster.nodes.find(({ name }) => name === input.node);
  if (node === undefined) throw new Error(`no Node is named ${input.node}`);
  const rules = toRules(input.objects, node, cluster);
  const isExempt = toExemptionTest(config, node.addresses);
  const isFailsafe = toFailsafeTest(config, cluster);
  return (flow) => {
    const packet = toPacket(flow);
    if (isExempt(packet)) return toAnswer(undefined, 'exempt', []);
    const matching = rules.filter((rule) => matches(rule, packet));
    return isFailsafe(packet) ? decideFailsafe(matching) : toAnswer(matching[0], undefined, []);
  };
}

/** The first matching rule that the failsafe does not skip decides. */
function decideFailsafe(matching: OracleRule[]): Answer {
  const found = matching.findIndex((rule) => !isBlanketDeny(rule));
  const skipped = found === -1 ? matching : matching.slice(0, found);
  const decided = found === -1 ? undefined : matching[found];
  const isChanged = verdictOf(matching[0]) !== verdictOf(decided);
  return toAnswer(decided, isChanged ? 'failsafe' : undefined, skipped);
}

function isBlanketDeny({ manifest }: OracleRule): boolean {
  return manifest.action !== 'Allow' && !namesServices(manifest);
}

function matches(rule: OracleRule, packet: Packet): boolean {
  if (rule.direction !== packet.direction) return false;
  if (rule.peers !== undefined && (packet.remote === undefined || !rule.peers(packet.remote))) return false;
  return matchesServices(rule.manifest, packet);
}

function verdictOf(rule: OracleRule | undefined): Answer['verdict'] {
  return rule === undefined ? 'Allow' : (rule.manifest.action as Answer['verdict']);
}

function toAnswer(
  decided: OracleRule | undefined,
  reason: Answer['reason'] | undefined,
  skipped: OracleRule[],
): Answer {
  return {
    verdict: verdictOf(decided),
    policy: decided?.policy ?? null,
    rule: decided?.manifest.name ?? null,
    ruleIndex: decided?.ruleIndex ?? null,
    tier: decided?.tier ?? null,
    reason: reason ?? (decided === undefined ? 'default' : 'rule'),
    skipped: skipped.map(({ policy, manifest }) => ({ policy, rule: manifest.name ?? null })),
  };
}

/** The rules of both directions that apply to the Node, in evaluation order. */
function toRules(objects: readonly object[], node: ClusterNode, cluster: Cluster): OracleRule[] {
  const policies = objectsOfKind(objects, policyApiVersions, 'ClusterNetworkPolicy') as PolicyManifest[];
  const rules = policies.flatMap((policy) => {
    assertKnownPolicy(policy);
    const tier = findTier(objects, policy);
    return (['ingress', 'egress'] as const).flatMap((direction) =>
      (policy.spec[direction] ?? []).flatMap((manifest, ruleIndex): OracleRule[] => {
        assertKnownRule(manifest);
        if (!appliesTo(policy, manifest, node)) return [];
        return [
          {
            tierPriority: tier.priority,
            tier: tier.name,
            priority: policy.spec.priority,
            policy: policy.metadata.name,
            apiGroup: apiGroupOf(policy.apiVersion),
            ruleIndex,
            direction,
            manifest,
            peers: toPeersTest(direction === 'ingress' ? manifest.from : manifest.to, cluster),
          },
        ];
      }),
    );
  });
  return rules.sort(compareOrder);
}

function appliesTo(policy: PolicyManifest, rule: RuleManifest, node: ClusterNode): boolean {
  const atPolicy = policy.spec.appliedTo ?? [];
  const items = atPolicy.length > 0 ? atPolicy : (rule.appliedTo ?? []);
  return items.some((item) => selectsNode(item, node));
}

function selectsNode(item: AppliedToManifest, node: ClusterNode): boolean {
  assertOnlyFields(item, ['nodeSelector'], 'appliedTo[]');
  if (item.nodeSelector === undefined) throw new Error('an empty item of appliedTo');
  return selects(item.nodeSelector, node.labels);
}

function assertKnownPolicy({ metadata, spec }: PolicyManifest): void {
  const fields = ['tier', 'priority', 'appliedTo', 'ingress', 'egress', 'mode', 'traffic'];
  assertOnlyFields(spec, fields, `${metadata.name}: spec`);
  if ((spec.mode ?? 'Enforce') !== 'Enforce')
    throw new Error(`the oracle does not evaluate mode ${spec.mode}`);
  if ((spec.traffic ?? 'Host') !== 'Host') throw new Error(`the oracle does not evaluate ${spec.traffic}`);
}

function assertKnownRule(rule: RuleManifest): void {
  const matchFields = ['from', 'to', 'ports', 'protocols', 'toServices'];
  const fields = ['name', 'action', ...matchFields, 'appliedTo', 'enableLogging', 'logLabel'];
  assertOnlyFields(rule, fields, 'rule');
  if (!['Allow', 'Drop', 'Reject'].includes(rule.action)) {
    throw new Error(`the oracle does not evaluate the action ${rule.action}`);
  }
  if ((rule.toServices ?? []).length > 0) throw new Error('the oracle does not evaluate toServices');
}
