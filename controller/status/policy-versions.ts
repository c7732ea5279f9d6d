import type { PolicyStatus } from '../../apis/policy-status.ts';
import { type Reflector, type ReflectorOptions, reflector } from '../watch/cluster/reflector.ts';
import { NODEWALL } from '../watch/cluster/resources.ts';

/** A ClusterNetworkPolicy of nodewall.io as the API has it, valid or not. */
export interface PolicyVersion {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  /** Null where none was written yet. */
  readonly status: PolicyStatus | null;
}

type Options = Pick<ReflectorOptions<PolicyVersion>, 'get' | 'times' | 'random' | 'notice'>;

/**
 * Follows them. The stage before keeps neither a policy's status nor the generation of one that is
 * invalid.
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
    narrow: ({ key, raw }) => toPolicyVersion(key, raw),
    changed(changes) {
      for (const { before, now } of changes) changed(before, now);
    },
  });
}

function toPolicyVersion(name: string, raw: Readonly<Record<string, unknown>>): PolicyVersion {
  const { uid, generation } = raw.metadata as { uid?: unknown; generation?: unknown };
  const status = raw.status as PolicyStatus | undefined;
  return {
    name,
    uid: typeof uid === 'string' ? uid : '',
    generation: typeof generation === 'number' ? generation : 0,
    status: status?.phase === undefined ? null : status,
  };
}
