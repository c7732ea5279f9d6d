import { type Following, followObject } from '../../watch/cluster/follow-object.ts';
import type { Reflector } from '../../watch/cluster/reflector.ts';

export type ConfigMapData = Readonly<Record<string, string>>;

export interface ConfigMapOptions extends Following {
  readonly namespace: string;
  readonly name: string;
  /** Called at first, and after each change; null if the ConfigMap doesn't exist. */
  readonly changed: (data: ConfigMapData | null) => void;
}

/** Watches the data of one ConfigMap. */
export function followConfigMap(options: ConfigMapOptions): Reflector {
  const read = ({ data }: { readonly data?: unknown }) => (data ?? {}) as ConfigMapData;
  return followObject({ ...options, apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps', read });
}
