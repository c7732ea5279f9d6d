import { asFields, asList } from '../../apis/schema/jsonschema.ts';
import type { KubeApi } from '../kubeapi/kubeapi.ts';
import { KubeError } from '../kubeapi/kubeerror.ts';

/** Where the API server looks up the CA that it checks our certificate with; the names are those of deploy/. */
const HOLDERS: readonly CaHolder[] = [
  {
    path: '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/nodewall',
    pointers: webhookPointers,
  },
  {
    path: '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/nodewall',
    pointers: webhookPointers,
  },
  {
    path: '/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.controlplane.nodewall.io',
    pointers: ({ spec }) => [{ pointer: '/spec/caBundle', holds: asFields(spec)?.caBundle }],
  },
];

interface CaHolder {
  readonly path: string;
  readonly pointers: (object: Readonly<Record<string, unknown>>) => readonly CaPlace[];
}

interface CaPlace {
  /** JSON pointer (RFC 6901). */
  readonly pointer: string;
  readonly holds: unknown;
}

function webhookPointers({ webhooks }: Readonly<Record<string, unknown>>): CaPlace[] {
  return asList(webhooks).map((webhook, index) => ({
    pointer: `/webhooks/${index}/clientConfig/caBundle`,
    holds: asFields(asFields(webhook)?.clientConfig)?.caBundle,
  }));
}

export interface CaBundleResult {
  /** Paths of the objects that were changed. */
  readonly changed: readonly string[];
  /** Of those that are not there: that part of deploy/ is not installed. */
  readonly absent: readonly string[];
}

/**
 * Writes the CA certificates (PEM) into the webhook configurations and the APIService where they hold others. To be called when the CA is known, when it
 * changes, and now and then, since an `apply` of deploy/ empties the fields. Throws a KubeError when the API server refuses.
 */
export async function publishCaBundle(request: KubeApi, pem: string): Promise<CaBundleResult> {
  const value = Buffer.from(pem).toString('base64');
  const changed: string[] = [];
  const absent: string[] = [];
  for (const { path, pointers } of HOLDERS) {
    const object = await read(request, path);
    if (object === null) {
      absent.push(path);
      continue;
    }
    const body = pointers(object).flatMap(({ pointer, holds }) =>
      holds === value ? [] : [{ op: 'add', path: pointer, value }],
    );
    if (body.length === 0) continue;
    // The places are those of this version: of another one it is an error, and done again the next time.
    const version = asFields(object.metadata)?.resourceVersion;
    const test = { op: 'test', path: '/metadata/resourceVersion', value: version };
    await request({ method: 'PATCH', path, body: [test, ...body] });
    changed.push(path);
  }
  return { changed, absent };
}

async function read(request: KubeApi, path: string): Promise<Readonly<Record<string, unknown>> | null> {
  try {
    return await request<Readonly<Record<string, unknown>>>({ method: 'GET', path });
  } catch (error) {
    if (error instanceof KubeError && error.status === 404) return null;
    throw error;
  }
}
