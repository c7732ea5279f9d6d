import type { PolicyStatus } from '../../apis/policy-status.ts';
import type { RawObject } from '../watch/cluster/raw-object.ts';
import { type Reflector, type ReflectorOptions, reflector } from '../watch/cluster/reflector.ts';
import { NODEWALL } from '../watch/cluster/resources.ts';

/** A ClusterNetworkPolicy of nodewall.io as it is in the API, valid or not. */
export interface PolicyVersion {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  /**
   * The resource version at which this generation was first seen; 0: not known. A state that was
   * compiled from policies up to this version has the generation.
   */
  readonly since: number;
  /** Null if none was written yet. */
  readonly status: PolicyStatus | null;
}

type Options = Pick<ReflectorOptions<PolicyVersion>, 'get' | 'times' | 'random' | 'notice'>;

/**
 * Watches policies for their status and generation. Stage 1 keeps neither the status of a policy
 * nor the generation of an invalid one.
 */
export function policyVersions(
  options: Options,
  changed: (before: PolicyVersion | null, now: PolicyVersion | null) => void,
): Reflector {
  const resource = NODEWALL.find(({ kind }) => kind === 'ClusterNetworkPolicy');
  if (resource === undefined) throw new Error('ClusterNetworkPolicy is not among the resources');
  return reflector<PolicyVersion>({
    ...options,
    resource,
    narrow: (object, before) => toPolicyVersion(object, before),
    changed(changes) {
      for (const { before, now } of changes) changed(before, now);
    },
  });
}

function toPolicyVersion({ key, raw, version }: RawObject, before: PolicyVersion | null): PolicyVersion {
  const { uid, generation } = raw.metadata as { uid?: unknown; generation?: unknown };
  const status = raw.status as PolicyStatus | undefined;
  const now = {
    name: key,
    uid: typeof uid === 'string' ? uid : '',
    generation: typeof generation === 'number' ? generation : 0,
  };
  const isSame = before?.uid === now.uid && before.generation === now.generation;
  return {
    ...now,
    since: isSame ? before.since : version,
    status: status?.phase === undefined ? null : status,
  };
}
