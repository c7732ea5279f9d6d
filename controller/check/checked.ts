import { type CheckLine, warning } from '../../lib/process/check-line.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError, type KubeError, orNull } from '../kubeapi/kube-error.ts';

/** An object of the API server, as others may have written it. */
export interface CheckedObject {
  readonly metadata?: { readonly name?: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly data?: Readonly<Record<string, string>>;
}

/** Looks at one thing. Throws KubeError if it cannot. */
export type SingleCheck = (request: KubeApi) => Promise<readonly CheckLine[]>;

/** Null: there is no such object. Throws KubeError. */
export function readObject<T = CheckedObject>(request: KubeApi, path: string): Promise<T | null> {
  return orNull(request<T>({ method: 'GET', path }));
}

/** All lines; a check that fails is a line too. */
export async function runChecks(
  request: KubeApi,
  checks: Readonly<Record<string, SingleCheck>>,
): Promise<readonly CheckLine[]> {
  const lines = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      try {
        return await check(request);
      } catch (error) {
        if (!isKubeError(error)) throw error;
        return [warning(name, `cannot be checked: ${error.message}`, wayOut(error))];
      }
    }),
  );
  return lines.flat();
}

/** Advice where the API server did not answer a check. */
function wayOut({ reason }: KubeError): string {
  switch (reason) {
    case 'Forbidden':
      return 'repeat it as a user who may read that';
    case 'Unauthorized':
      return 'repeat it with a kubeconfig whose credentials are valid';
    case 'NotFound':
    case 'ServiceUnavailable':
      return 'no controller serves it: see "aggregated API", "controllers" and "pods" here';
    default:
      return 'repeat it; if it stays, look at the API server';
  }
}
