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
export async function reviewToken(request: KubeApi, spec: TokenReviewSpec): Promise<TokenReviewStatus> {
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec };
  const path = '/apis/authentication.k8s.io/v1/tokenreviews';
  const { status } = await request<{ status: TokenReviewStatus }>({
    method: 'POST',
    path,
    body,
    timeout: TIMEOUT,
  });
  return status;
}

/**
 * Has the API server check a permission: authorization.k8s.io/v1 SubjectAccessReview. Throws
 * KubeError.
 */
export async function reviewAccess(request: KubeApi, spec: AccessReviewSpec): Promise<AccessReviewStatus> {
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
  const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
  const { status } = await request<{ status: AccessReviewStatus }>({
    method: 'POST',
    path,
    body,
    timeout: TIMEOUT,
  });
  return status;
}
