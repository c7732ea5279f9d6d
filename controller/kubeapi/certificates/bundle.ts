import type { KubeApi } from '../kube-api.ts';
import { isKubeError, orNull } from '../kube-error.ts';

/** An object that holds CA certificates, only the fields used here. */
type Holder = Readonly<Record<string, unknown>>;

const MOST_TRIES = 5;

/**
 * Writes CA certificates (PEM) to key `ca.crt` of the ConfigMap, which is created if it doesn't
 * exist. Throws KubeError.
 */
export async function publishBundle(
  request: KubeApi,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  certificates: string,
): Promise<void> {
  const collection = `/api/v1/namespaces/${namespace}/configmaps`;
  const data = { 'ca.crt': certificates };
  await untilWritten(async () => {
    const held = await orNull(request<Holder>({ method: 'GET', path: `${collection}/${name}` }));
    if (held === null) {
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data };
      await request({ method: 'POST', path: collection, body });
    } else if ((held as { data?: Record<string, string> }).data?.['ca.crt'] !== certificates) {
      await request({ method: 'PATCH', path: `${collection}/${name}`, body: { data } });
    }
  });
}

async function untilWritten(write: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await write();
    } catch (error) {
      if (tries === MOST_TRIES || !isKubeError(error, 'AlreadyExists', 'Conflict')) throw error;
    }
  }
}
