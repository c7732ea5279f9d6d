import type { FrontProxy } from '../../publish/auth.ts';
import { type Following, followObject } from '../../watch/cluster/follow-object.ts';
import type { Reflector } from '../../watch/cluster/reflector.ts';

export type ConfigMapData = Readonly<Record<string, string>>;

interface ConfigMapOptions extends Following {
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

export interface FrontProxySetting extends FrontProxy {
  /** CA certificates (PEM) that the front proxy's client certificate is verified against. */
  readonly clientCa: string;
}

/**
 * Null if the API server has no aggregation layer, or the ConfigMap is not valid: then no front
 * proxy is trusted.
 */
export function frontProxySetting(data: ConfigMapData | null): FrontProxySetting | null {
  const clientCa = data?.['requestheader-client-ca-file'];
  if (data === null || clientCa === undefined || clientCa === '') return null;
  const lists = [
    'requestheader-allowed-names',
    'requestheader-username-headers',
    'requestheader-uid-headers',
    'requestheader-group-headers',
    'requestheader-extra-headers-prefix',
  ].map((key) => list(data[key]));
  const [allowedNames, usernameHeaders, uidHeaders, groupHeaders, extraHeaderPrefixes] = lists;
  if (!allowedNames || !usernameHeaders || !uidHeaders || !groupHeaders || !extraHeaderPrefixes) return null;
  return { clientCa, allowedNames, usernameHeaders, uidHeaders, groupHeaders, extraHeaderPrefixes };
}

/** A JSON list of strings; empty if absent, null if it is anything else. */
function list(text: string | undefined): readonly string[] | null {
  if (text === undefined || text === '') return [];
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : null;
  } catch {
    return null;
  }
}
