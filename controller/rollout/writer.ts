import type { RolloutStatus } from '../../apis/rollout.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';
import { NODEWALL_POLICIES } from '../status/writer.ts';

/** Nulls delete absent fields: a merge patch (RFC 7386) leaves unnamed fields unchanged. */
const ABSENT = {
  progress: null,
  message: null,
  nodes: null,
  updated: null,
  confirmed: null,
  failed: null,
  silent: null,
  waiting: null,
  settled: null,
  tolerated: null,
  decision: null,
  versions: null,
} satisfies Record<keyof RolloutStatus, null>;

/**
 * Writes `status.rollout` and nothing else. The API server refuses it if the policy has changed
 * since this version: so two leaders never write over each other's decision.
 */
export function rolloutWriter(
  request: KubeApi,
): (policy: WatchedPolicy, rollout: RolloutStatus | null) => Promise<void> {
  return async ({ name, uid, resourceVersion }, rollout) => {
    const decision = rollout?.decision === undefined ? null : { pausedBy: null, ...rollout.decision };
    const written = rollout === null ? null : { ...ABSENT, ...rollout, decision };
    await request({
      method: 'PATCH',
      path: `${NODEWALL_POLICIES}/${encodeURIComponent(name)}/status`,
      body: { metadata: { uid, resourceVersion: String(resourceVersion) }, status: { rollout: written } },
    });
  };
}
