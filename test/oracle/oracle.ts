import { addressKey, inRange } from './address.ts';
import type { Answer } from './answer.ts';
import { type Cluster, type ClusterNode, toCluster } from './cluster.ts';
import { goesToLocalPod, isForOthers, isPodsGroup, loopbackRanges, toExemptionTest } from './exemption.ts';
import { toFailsafeTest } from './failsafe.ts';
import { type Flow, type Names, type OracleConfig, type Packet, toPacket } from './flow.ts';
import { baselinePriority } from './order.ts';
import { matches, type OracleRule, toRules } from './rule.ts';
import { namesServices } from './service.ts';

export type { Answer } from './answer.ts';
export { sameAnswer } from './answer.ts';
export type { Flow, OracleConfig } from './flow.ts';

/**
 * What the oracle judges by: parsed manifests, the Node's name, the agent's configuration, what
 * names resolve to.
 */
export interface OracleInput {
  objects: readonly object[];
  node: string;
  config?: object;
  /** As `--names` gives them; without it no name resolves to anything. */
  names?: Names;
}

/** What a walk through the rules came to. */
interface Decision {
  /** undefined = no rule decided. */
  rule: OracleRule | undefined;
  skipped: OracleRule[];
  audited: OracleRule[];
}

/**
 * Evaluates docs/semantics.md straight from the manifests: slow, plain, sharing nothing with the
 * implementation. The objects are taken to be valid. Throws on what it does not evaluate; nothing
 * is ignored.
 */
export function oracle(input: OracleInput): (flow: Flow) => Answer {
  const { objects, names = {} } = input;
  const config = (input.config ?? {}) as OracleConfig;
  const cluster = toCluster(objects, config);
  const node = cluster.nodes.find(({ name }) => name === input.node);
  if (node === undefined) throw new Error(`no Node is named ${input.node}`);
  const rules = toRules({ objects, cluster, node, config, names });
  const isExempt = toExemptionTest(config, node.addresses, rules);
  const isOfLocalPod = toLocalPodTest(cluster, node);
  // A Node that no rule but of Audit policies applies to is left alone.
  const isSpoofed = rules.every(({ isAudit }) => isAudit) ? () => false : toSpoofTest(config, cluster, node);
  const isFailsafe = toFailsafeTest(config, cluster, node);
  return (flow) => {
    const given = toPacket(flow);
    const packet = isOfLocalPod(given) ? { ...given, interfaceGroup: 'pods' } : given;
    if (isSpoofed(packet))
      return { ...toAnswer({ rule: undefined, skipped: [], audited: [] }, 'spoofed'), verdict: 'Drop' };
    if (isExempt(packet)) return toAnswer({ rule: undefined, skipped: [], audited: [] }, 'exempt');
    const isSpared = goesToLocalPod(packet, config);
    const matching = rules.filter((rule) => matches(rule, packet) && !(isSpared && isForOthers(rule)));
    const otherwise = isSpared ? 'exempt' : 'default';
    const plain = decide(matching, () => false);
    if (!isFailsafe(packet)) return toAnswer(plain, reasonOf(plain, otherwise));
    const safe = decide(matching, isBlanketDeny);
    return toAnswer(safe, verdictOf(plain) === verdictOf(safe) ? reasonOf(safe, otherwise) : 'failsafe');
  };
}

/** Walks through the matching rules, in order, up to the one that decides. */
function decide(matching: OracleRule[], isSkipped: (rule: OracleRule) => boolean): Decision {
  const decision: Decision = { rule: undefined, skipped: [], audited: [] };
  let hasPassed = false;
  for (const rule of matching) {
    if (hasPassed && rule.tierPriority !== baselinePriority) continue;
    if (rule.isAudit) {
      // As if absent, a Pass too. What the failsafe would skip did not even match, so it is in
      // neither list.
      if (!isSkipped(rule)) decision.audited.push(rule);
    } else if (isSkipped(rule)) decision.skipped.push(rule);
    else if (rule.manifest.action === 'Pass') hasPassed = true;
    else return { ...decision, rule };
  }
  return decision;
}

function isBlanketDeny({ manifest }: OracleRule): boolean {
  return ['Drop', 'Reject'].includes(manifest.action) && !namesServices(manifest);
}

function verdictOf({ rule }: Decision): Answer['verdict'] {
  return rule === undefined ? 'Allow' : (rule.manifest.action as Answer['verdict']);
}

/** The origin of the verdict: the rule, or the reason without one. */
function reasonOf({ rule }: Decision, otherwise: Answer['reason']): Answer['reason'] {
  return rule === undefined ? otherwise : 'rule';
}

/**
 * A Pass that nothing in the baseline tier follows decides nothing: no policy is named, the reason
 * is `default`.
 */
function toAnswer(decision: Decision, reason: Answer['reason']): Answer {
  const { rule } = decision;
  return {
    verdict: verdictOf(decision),
    policy: rule?.policy ?? null,
    rule: rule?.manifest.name ?? null,
    ruleIndex: rule?.ruleIndex ?? null,
    tier: rule?.tier ?? null,
    reason,
    skipped: decision.skipped.map(toName),
    audited: decision.audited.map(toName),
  };
}

function toName({ policy, manifest }: OracleRule): { policy: string; rule: string | null } {
  return { policy, rule: manifest.name ?? null };
}

/**
 * Builds the test for packets that a pod sends with the address of a Node, an own or a loopback
 * address.
 */
function toSpoofTest(
  config: OracleConfig,
  { nodes }: Cluster,
  node: ClusterNode,
): (packet: Packet) => boolean {
  if (config.antiSpoofing === false) return () => false;
  const addresses = [node, ...nodes].flatMap((one) => one.addresses);
  const known = new Set(addresses.map(addressKey));
  return (packet) => {
    const { direction, src } = packet;
    if (direction !== 'ingress' || src === undefined || !isPodsGroup(packet, config)) return false;
    return known.has(addressKey(src)) || loopbackRanges.some((range) => inRange(range, src));
  };
}

/**
 * Builds the test for outgoing packets that don't say their interface, and go to a pod of this
 * Node: they leave by an interface of pods.
 */
function toLocalPodTest({ pods }: Cluster, { name }: ClusterNode): (packet: Packet) => boolean {
  const local = pods.filter(({ node }) => node === name).flatMap(({ addresses }) => addresses);
  const known = new Set(local.map(addressKey));
  return ({ direction, interfaceGroup, dst }) =>
    direction === 'egress' && interfaceGroup === undefined && dst !== undefined && known.has(addressKey(dst));
}
