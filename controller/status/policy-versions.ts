import type { ApiGroup } from '../../apis/objects.ts';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { ROLLOUT_ANNOTATION, type RolloutStatus } from '../../apis/rollout.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { RawObject } from '../watch/cluster/object-store.ts';
import { type Reflector, type ReflectorOptions, reflector } from '../watch/cluster/reflector.ts';
import { ANTREA, NODEWALL_API, type Resource } from '../watch/cluster/resources.ts';
import type { WrittenStatus } from './antrea-status.ts';
import { NODEWALL_POLICIES } from './writer.ts';

/** A ClusterNetworkPolicy as it is in the API, valid or not. */
export interface PolicyVersion<S = PolicyStatus> {
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  /**
   * The resource version at which this generation was first seen; 0: not known. A state that was
   * compiled from policies up to this version has the generation.
   */
  readonly since: number;
  /** Null if none was written yet; without `rollout` and `lastDefinitions`. */
  readonly status: S | null;
}

/** A policy of nodewall.io with what its rollout depends on. */
export interface WatchedPolicy extends PolicyVersion {
  /** `status.rollout`; null: there is none. */
  readonly rollout: RolloutStatus | null;
  /** The annotation ROLLOUT_ANNOTATION; null: there is none. */
  readonly command: string | null;
  readonly resourceVersion: number;
  /** When its spec was last changed, and by which field manager; absent: the API does not say. */
  readonly changed?: { readonly time: string; readonly by: string };
}

type Options = Pick<ReflectorOptions<WatchedPolicy>, 'get' | 'times' | 'random' | 'notice'>;

/**
 * Watches policies for their status and generation. Stage 1 keeps neither the status of a policy
 * nor the generation of an invalid one.
 */
export function policyVersions(
  options: Options,
  changed: (before: WatchedPolicy | null, now: WatchedPolicy | null) => void,
): Reflector {
  return reflector<WatchedPolicy>({
    ...options,
    resource: policiesOf(NODEWALL_API),
    narrow: (object, before) => toPolicyVersion(object, before),
    changed(changes) {
      for (const { before, now } of changes) changed(before, now);
    },
  });
}

/** The same of policies of crd.antrea.io, which have no rollout. */
export function antreaPolicyVersions(
  options: Pick<ReflectorOptions<PolicyVersion<WrittenStatus>>, 'get' | 'times' | 'random' | 'notice'>,
  changed: (before: PolicyVersion<WrittenStatus> | null, now: PolicyVersion<WrittenStatus> | null) => void,
): Reflector {
  return reflector<PolicyVersion<WrittenStatus>>({
    ...options,
    resource: policiesOf(ANTREA),
    narrow({ key, raw, version }, before) {
      const { phase } = (raw.status ?? {}) as Partial<WrittenStatus>;
      return {
        ...identityOf('crd.antrea.io', { key, raw, version }, before),
        status: phase === undefined ? null : (raw.status as WrittenStatus),
      };
    },
    changed(changes) {
      for (const { before, now } of changes) changed(before, now);
    },
  });
}

function policiesOf(resources: readonly Resource[]): Resource {
  const resource = resources.find(({ kind }) => kind === 'ClusterNetworkPolicy');
  if (resource === undefined) throw new Error('ClusterNetworkPolicy is not among the resources');
  return resource;
}

function identityOf(
  apiGroup: ApiGroup,
  { key, raw, version }: RawObject,
  before: PolicyVersion<unknown> | null,
): Omit<PolicyVersion, 'status'> {
  const { uid, generation } = raw.metadata as { uid?: unknown; generation?: unknown };
  const now = {
    apiGroup,
    name: key,
    uid: typeof uid === 'string' ? uid : '',
    generation: typeof generation === 'number' ? generation : 0,
  };
  const isSame = before?.uid === now.uid && before.generation === now.generation;
  return { ...now, since: isSame ? before.since : version };
}

function toPolicyVersion(object: RawObject, before: PolicyVersion | null): WatchedPolicy {
  const { raw, version } = object;
  const { annotations } = raw.metadata as { annotations?: Readonly<Record<string, string>> };
  // DefinitionKeeper writes lastDefinitions.
  const {
    rollout = null,
    lastDefinitions: _,
    ...status
  } = (raw.status ?? {}) as Partial<PolicyStatus> & { rollout?: RolloutStatus; lastDefinitions?: unknown };
  return {
    ...identityOf('nodewall.io', object, before),
    status: status.phase === undefined ? null : (status as PolicyStatus),
    rollout,
    command: annotations?.[ROLLOUT_ANNOTATION] ?? null,
    resourceVersion: version,
    ...lastChange(raw.metadata),
  };
}

/** By metadata.managedFields, which name a status by its subresource. */
function lastChange(metadata: unknown): Pick<WatchedPolicy, 'changed'> {
  const { managedFields } = Object(metadata) as { readonly managedFields?: unknown };
  let changed: WatchedPolicy['changed'];
  for (const entry of Array.isArray(managedFields) ? managedFields : []) {
    const { manager, time, subresource } = Object(entry) as Readonly<Record<string, unknown>>;
    if (typeof manager !== 'string' || typeof time !== 'string' || (subresource ?? '') !== '') continue;
    if (changed === undefined || time >= changed.time) changed = { time, by: manager };
  }
  return changed === undefined ? {} : { changed };
}

/** Nulls delete absent fields: a merge patch (RFC 7386) leaves unnamed fields unchanged. */
const ABSENT = {
  progress: null,
  message: null,
  nodes: null,
  updated: null,
  confirmed: null,
  failed: null,
  silent: null,
  waiting: null,
  settled: null,
  tolerated: null,
  decision: null,
  versions: null,
} satisfies Record<keyof RolloutStatus, null>;

/**
 * Writes `status.rollout` and nothing else. The API server refuses it if the policy has changed
 * since this version: so two leaders never write over each other's decision.
 */
export function rolloutWriter(
  request: KubeApi,
): (policy: WatchedPolicy, rollout: RolloutStatus | null) => Promise<void> {
  return async ({ name, uid, resourceVersion }, rollout) => {
    const decision = rollout?.decision === undefined ? null : { pausedBy: null, ...rollout.decision };
    const written = rollout === null ? null : { ...ABSENT, ...rollout, decision };
    await request({
      method: 'PATCH',
      path: `${NODEWALL_POLICIES}/${encodeURIComponent(name)}/status`,
      body: { metadata: { uid, resourceVersion: String(resourceVersion) }, status: { rollout: written } },
    });
  };
}
