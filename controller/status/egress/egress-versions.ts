import type { RawObject } from '../../watch/cluster/raw-object.ts';
import { type Reflector, type ReflectorOptions, reflector } from '../../watch/cluster/reflector.ts';
import { EGRESS, groupVersionPath, type Resource } from '../../watch/cluster/resources.ts';
import type { EgressStatus } from './egress-status.ts';

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
