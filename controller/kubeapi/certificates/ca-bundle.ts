import { asFields, asList, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { type Following, followObject } from '../../watch/cluster/follow-object.ts';
import type { Reflector } from '../../watch/cluster/reflector.ts';
import type { KubeApi } from '../kube-api.ts';
import { KubeError } from '../kube-error.ts';

/**
 * The configurations by which the API server calls the webhook, and which hold the CA of its
 * certificate; the names are those in deploy/.
 */
const CONFIGURATIONS = [
  { kind: 'MutatingWebhookConfiguration', plural: 'mutatingwebhookconfigurations', name: 'nodewall' },
  { kind: 'ValidatingWebhookConfiguration', plural: 'validatingwebhookconfigurations', name: 'nodewall' },
] as const;
const API_VERSION = 'admissionregistration.k8s.io/v1';

export interface CaBundleResult {
  /** Paths of the changed objects. */
  readonly changed: readonly string[];
  /** Paths of the objects that don't exist: that part of deploy/ is not installed. */
  readonly absent: readonly string[];
}

/** The caBundle of each webhook of a configuration. */
function bundlesOf({ webhooks }: FieldMap): unknown[] {
  return asList(webhooks).map((webhook) => asFields(asFields(webhook)?.clientConfig)?.caBundle);
}

/**
 * Calls back at first, and whenever one of the configurations is created, deleted, or gets another
 * caBundle: an `apply` of deploy/ empties them.
 */
export function followCaBundles(following: Following, changed: () => void): Reflector[] {
  return CONFIGURATIONS.map((configuration) =>
    followObject({ ...following, ...configuration, apiVersion: API_VERSION, read: bundlesOf, changed }),
  );
}

/**
 * Writes the CA certificates (PEM) to the webhook configurations that hold different ones. Throws a
 * KubeError if the API server refuses.
 */
export async function publishCaBundle(request: KubeApi, pem: string): Promise<CaBundleResult> {
  const value = Buffer.from(pem).toString('base64');
  const changed: string[] = [];
  const absent: string[] = [];
  for (const { plural, name } of CONFIGURATIONS) {
    const path = `/apis/${API_VERSION}/${plural}/${name}`;
    const object = await read(request, path);
    if (object === null) {
      absent.push(path);
      continue;
    }
    const body = bundlesOf(object).flatMap((bundle, index) =>
      bundle === value ? [] : [{ op: 'add', path: `/webhooks/${index}/clientConfig/caBundle`, value }],
    );
    if (body.length === 0) continue;
    // The indexes are valid for this version only: for another one the request fails, and is
    // repeated at the next check.
    const version = asFields(object.metadata)?.resourceVersion;
    const test = { op: 'test', path: '/metadata/resourceVersion', value: version };
    await request({ method: 'PATCH', path, body: [test, ...body] });
    changed.push(path);
  }
  return { changed, absent };
}

async function read(request: KubeApi, path: string): Promise<FieldMap | null> {
  try {
    return await request<FieldMap>({ method: 'GET', path });
  } catch (error) {
    if (error instanceof KubeError && error.status === 404) return null;
    throw error;
  }
}
