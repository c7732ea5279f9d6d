import { type Reflector, type ReflectorOptions, reflector } from '../watch/cluster/reflector.ts';
import type { Resource } from '../watch/cluster/resources.ts';

export type ConfigMapData = Readonly<Record<string, string>>;

export interface ConfigMapOptions
  extends Pick<ReflectorOptions<ConfigMapData>, 'get' | 'times' | 'random' | 'notice'> {
  readonly namespace: string;
  readonly name: string;
  /** At first, and whenever it is another; null where there is no such ConfigMap. */
  readonly changed: (data: ConfigMapData | null) => void;
}

/** Follows one ConfigMap. RBAC takes the list and the watch for one of that name (list and watch with resourceNames). */
export function followConfigMap({ namespace, name, changed, ...options }: ConfigMapOptions): Reflector {
  let isFirst = true;
  const resource = {
    name: `configmaps/${namespace}/${name}`,
    kind: 'ConfigMap',
    apiVersion: 'v1',
    plural: `namespaces/${namespace}/configmaps`,
    isCustom: false,
    fieldSelector: `metadata.name=${name}`,
  } as const;
  return reflector<ConfigMapData>({
    ...options,
    // Nothing of a resource's kind matters to the reflector but that it is written into the objects.
    resource: resource as unknown as Resource,
    narrow: ({ raw }, before) => {
      const data = (raw.data ?? {}) as ConfigMapData;
      return before !== null && isSame(before, data) ? before : data;
    },
    changed(changes) {
      for (const { before, now } of changes) if (before !== now) changed(now);
      if (isFirst && changes.length === 0) changed(null);
      isFirst = false;
    },
  });
}

function isSame(a: ConfigMapData, b: ConfigMapData): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}
