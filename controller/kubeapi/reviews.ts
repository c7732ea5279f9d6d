import type {
  AccessReviewSpec,
  AccessReviewStatus,
  TokenReviewSpec,
  TokenReviewStatus,
} from '../publish/auth.ts';
import type { KubeApi } from './kube-api.ts';

/** Time limit (milliseconds): a client waits for the answer. */
const TIMEOUT = 5_000;

/**
 * Has the API server authenticate a token: authentication.k8s.io/v1 TokenReview. Throws KubeError.
 */
export function reviewToken(request: KubeApi, spec: TokenReviewSpec): Promise<TokenReviewStatus> {
  return review(request, 'authentication.k8s.io/v1', 'TokenReview', spec);
}

/**
 * Has the API server check a permission: authorization.k8s.io/v1 SubjectAccessReview. Throws
 * KubeError.
 */
export function reviewAccess(request: KubeApi, spec: AccessReviewSpec): Promise<AccessReviewStatus> {
  return review(request, 'authorization.k8s.io/v1', 'SubjectAccessReview', spec);
}

async function review<T>(request: KubeApi, apiVersion: string, kind: string, spec: object): Promise<T> {
  const path = `/apis/${apiVersion}/${kind.toLowerCase()}s`;
  const body = { apiVersion, kind, spec };
  return (await request<{ status: T }>({ method: 'POST', path, body, timeout: TIMEOUT })).status;
}
