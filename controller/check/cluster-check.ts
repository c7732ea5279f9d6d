import { type CheckLine, worstFirst } from '../../lib/process/check-line.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { BEFORE_CHECKS } from './before-checks.ts';
import { runChecks } from './checked.ts';
import { definitions } from './definitions-check.ts';
import { installedChecks, isInstalled } from './installed-checks.ts';
import { nodeChecks } from './node-checks.ts';
import { rights } from './rights-check.ts';

export interface ClusterCheck {
  /** The subject of the check: a cluster before the installation, or an installed nodewall. */
  readonly of: 'before' | 'installed';
  /** The worst first. */
  readonly lines: readonly CheckLine[];
}

interface ClusterCheckOptions {
  readonly request: KubeApi;
  /** Look only at what has to be right before nodewall is installed. */
  readonly before: boolean;
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Looks at a cluster, and changes nothing. Throws KubeError if the API server does not answer. */
export async function checkCluster(options: ClusterCheckOptions): Promise<ClusterCheck> {
  const { request, version, now } = options;
  const installed = !options.before && (await isInstalled(request));
  const lines = await runChecks(request, {
    ...BEFORE_CHECKS,
    definitions: () => definitions(request, installed),
    ...(installed
      ? { ...installedChecks(now()), ...nodeChecks({ version, now }) }
      : { 'your rights': rights }),
  });
  return { of: installed ? 'installed' : 'before', lines: worstFirst(lines) };
}
