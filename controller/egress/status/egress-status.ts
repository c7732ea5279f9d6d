import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import type { Condition } from '../../../apis/policy-status.ts';
import { type ConditionState, readinessConditions } from '../../status/conditions.ts';
import type { RawObject } from '../../watch/cluster/object-store.ts';
import { type Reflector, type ReflectorOptions, reflector } from '../../watch/cluster/reflector.ts';
import { EGRESS, groupVersionPath, type Resource } from '../../watch/cluster/resources.ts';
import type { PoolUsage } from '../owners/decide-gateway.ts';

/** The whole status of an EgressGateway, as it is written (apis/validate/egress/status.ts). */
export interface WrittenGatewayStatus extends EgressGatewayStatus {
  readonly observedGeneration: number;
  /** `tunnel`: the address of the node's end of the tunnel, as its agent reports it. */
  readonly nodes: readonly (EgressGatewayStatus['nodes'][number] & { readonly tunnel?: string })[];
  readonly usage: PoolUsage;
  readonly conditions: readonly Condition[];
}

/** The whole status of an EgressPolicy or a ClusterEgressPolicy. */
export interface WrittenPolicyStatus {
  readonly observedGeneration: number;
  readonly addresses: readonly string[];
  readonly owners: readonly string[];
  readonly pods: number;
  readonly desiredNodesRealized: number;
  readonly currentNodesRealized: number;
  readonly conditions: readonly Condition[];
}

export type EgressStatus = WrittenGatewayStatus | WrittenPolicyStatus;

/**
 * With the conditions by which tools judge any object. That others use what a policy waits for, or
 * that no node is ready, ends by itself; a gateway is Ready by its own condition.
 */
export function withReadiness(said: readonly ConditionState[]): ConditionState[] {
  const lack = said.find(({ status }) => status !== 'True');
  if (lack === undefined) {
    const last = said.at(-1);
    const isThere = last === undefined || last.type === 'Ready';
    return isThere ? [...said] : [...said, ...readinessConditions('Ready', last)];
  }
  const readiness = ENDS_BY_ITSELF.has(lack.reason) ? 'Reconciling' : 'Stalled';
  const own = readinessConditions(readiness, lack);
  return [...said, ...own.filter(({ type }) => said.every((one) => one.type !== type))];
}

const ENDS_BY_ITSELF: ReadonlySet<string> = new Set([
  ...['Waiting', 'Realizing', 'AddressHeld', 'NoReadyNode', 'NoNodes'],
]);

/**
 * The condition Accepted, by the errors of the object.
 *
 * @param isWaiting whether all of them end when the gateway is created that it names
 */
export function accepted(
  kind: 'gateway' | 'policy',
  problems: readonly string[],
  isWaiting = false,
): ConditionState {
  const [first] = problems;
  if (first === undefined)
    return { type: 'Accepted', status: 'True', reason: 'Valid', message: `The ${kind} is valid.` };
  const more = problems.length === 1 ? '' : ` (and ${problems.length - 1} more)`;
  const message = `${first.slice(0, LONGEST)}${more}`;
  return { type: 'Accepted', status: 'False', reason: isWaiting ? 'Waiting' : 'Invalid', message };
}

/** The condition Ready of a gateway. */
export function gatewayReady(nodes: EgressGatewayStatus['nodes']): ConditionState {
  const ready = nodes.filter((node) => node.ready).length;
  const message = `${ready} of ${nodes.length} nodes are ready.`;
  return ready > 0
    ? { type: 'Ready', status: 'True', reason: 'NodesReady', message }
    : { type: 'Ready', status: 'False', reason: nodes.length === 0 ? 'NoNodes' : 'NoReadyNode', message };
}

const LONGEST = 500;

/** A gateway or a policy of nodewall.io as it is in the API, valid or not. */
export interface EgressVersion {
  readonly kind: string;
  /** `NAME`, or `NAMESPACE/NAME`. */
  readonly name: string;
  /** Without a subresource. */
  readonly path: string;
  readonly uid: string;
  readonly generation: number;
  /** The resource version at which this generation was first seen. */
  readonly since: number;
  /** As it was written; null: none. */
  readonly status: EgressStatus | null;
}

type Options = Pick<ReflectorOptions<EgressVersion>, 'get' | 'times' | 'random' | 'notice'>;

/** Watches gateways and policies for their whole statuses, which stage 1 does not keep. */
export function egressVersions(
  options: Options,
  changed: (before: EgressVersion | null, now: EgressVersion | null) => void,
): readonly Reflector[] {
  return EGRESS.map((resource) =>
    reflector<EgressVersion>({
      ...options,
      resource,
      narrow: (object, before) => toVersion(resource, object, before),
      changed(changes) {
        for (const { before, now } of changes) changed(before, now);
      },
    }),
  );
}

function toVersion(
  resource: Resource,
  { key, raw, version }: RawObject,
  before: EgressVersion | null,
): EgressVersion {
  const { uid = '', generation = 0 } = raw.metadata as { uid?: string; generation?: number };
  const status = raw.status as EgressStatus | undefined;
  const isSame = before?.uid === uid && before.generation === generation;
  const [name = '', namespace] = key.split('/').reverse();
  const within = namespace === undefined ? '' : `/namespaces/${namespace}`;
  return {
    kind: resource.kind,
    name: key,
    path: `${groupVersionPath(resource)}${within}/${resource.plural}/${encodeURIComponent(name)}`,
    uid,
    generation,
    since: isSame ? before.since : version,
    status: status?.observedGeneration === undefined ? null : status,
  };
}
