import { type CheckLine, firstNames, ok, problem } from '../../lib/process/check-line.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { readObject } from './checked.ts';

interface Dated {
  readonly metadata?: {
    readonly name?: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec?: { readonly serviceAccountName?: string };
}

const NAMESPACE = '/api/v1/namespaces/nodewall-system';
/** By ServiceAccount. */
const WORKLOADS = {
  'nodewall-controller': 'deployment/nodewall-controller',
  'nodewall-agent': 'daemonset/nodewall-agent',
} as const;

/** Whether the pods' tokens are of their ServiceAccounts, not of earlier ones of that name. */
export async function tokens(request: KubeApi): Promise<readonly CheckLine[]> {
  const { items = [] } =
    (await readObject<{ readonly items?: readonly Dated[] }>(request, `${NAMESPACE}/pods`)) ?? {};
  const lines: CheckLine[] = [];
  for (const [name, workload] of Object.entries(WORKLOADS)) {
    const pods = items.filter(
      ({ spec, metadata }) => spec?.serviceAccountName === name && metadata?.deletionTimestamp === undefined,
    );
    if (pods.length === 0) continue;
    const account = await readObject<Dated>(request, `${NAMESPACE}/serviceaccounts/${name}`);
    const made = timeOf(account);
    const older = pods.filter((pod) => timeOf(pod) < made);
    if (account === null)
      lines.push(
        problem(
          'tokens',
          `there is no ServiceAccount ${name}: the API server accepts no token of its ${pods.length} pods`,
          `kubectl apply --server-side -k deploy/kustomize/base; then kubectl rollout restart -n nodewall-system ${workload}`,
        ),
      );
    else if (older.length > 0)
      lines.push(
        problem(
          'tokens',
          `ServiceAccount ${name} was made again after these pods began, whose tokens are not accepted: ${firstNames(older.map(({ metadata }) => metadata?.name ?? ''))}`,
          `kubectl rollout restart -n nodewall-system ${workload}`,
        ),
      );
    else lines.push(ok('tokens', `of ServiceAccount ${name}, as it is now`));
  }
  return lines;
}

/** Milliseconds since 1970. */
function timeOf(object: Dated | null): number {
  return Date.parse(object?.metadata?.creationTimestamp ?? '');
}
