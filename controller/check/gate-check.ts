import type { NodeReport } from '../../apis/node-report.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type CheckLine, ok, problem, warning } from '../../lib/process/check-line.ts';
import {
  GATE_ANNOTATIONS,
  type GateName,
  gateSetting,
  parseGate,
} from '../kubeapi/configmap/feature-gate.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError } from '../kubeapi/kube-error.ts';
import type { Lease } from '../kubeapi/lease/lease.ts';
import { readObject } from './checked.ts';

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/nodewall-system/leases/nodewall-controller';
const CONFIG = '/api/v1/namespaces/nodewall-system/configmaps/nodewall-config';
const SWITCH_ON = 'kubectl apply -f deploy/gate/on.yaml';

/** The value of a gate, and why the ConfigMap does not say it. */
interface Gate {
  /** Null: none. */
  readonly enabled: boolean | null;
  /** Null: the ConfigMap says it. */
  readonly why: string | null;
}

type Gates = Readonly<Record<GateName, Gate>>;

/** The feature gates: on, off, or without a value, where each node keeps what it has. */
export async function featureGates(request: KubeApi): Promise<readonly CheckLine[]> {
  const [config, lease] = await Promise.all([readObject(request, CONFIG), readObject<Lease>(request, LEASE)]);
  const gateOf = (name: GateName): Gate => {
    const { enabled, problems } = gateSetting(config?.data ?? null, name);
    if (enabled !== null) return { enabled, why: null };
    const why =
      config === null
        ? 'there is no ConfigMap nodewall-config'
        : (problems[0] ?? 'ConfigMap nodewall-config does not set it');
    return { enabled: parseGate(lease?.metadata?.annotations?.[GATE_ANNOTATIONS[name]], name), why };
  };
  const gates = { NodeNetworkPolicy: gateOf('NodeNetworkPolicy'), EgressGateway: gateOf('EgressGateway') };
  const areUnset = Object.values(gates).some(({ enabled }) => enabled === null);
  return gateLines(gates, areUnset ? await reports(request) : []);
}

/** @param nodes the reports of nodes, as far as they are needed; null: they are not known */
function gateLines(gates: Gates, nodes: readonly NodeReport[] | null): readonly CheckLine[] {
  const { NodeNetworkPolicy: policy, EgressGateway: egress } = gates;
  const check = 'feature gate';
  const lines: CheckLine[] = [];
  if (policy.enabled === null) lines.push(unset(policy.why ?? '', nodes));
  else if (policy.why !== null)
    lines.push(
      warning(check, `${policy.why}; the last value, ${policy.enabled ? 'on' : 'off'}, holds`, SWITCH_ON),
    );
  else lines.push(policy.enabled ? ok(check, 'on') : warning(check, 'off: nothing is enforced', SWITCH_ON));
  const steering = nodes?.filter(({ egress: own }) => own?.tunnel !== undefined).length ?? 0;
  if (egress.enabled === null && steering > 0)
    lines.push(
      problem(
        `${check} EgressGateway`,
        `it has no value; ${goOn(steering, 'steering')} as before, no floating address is given to any, and no change is followed`,
        'set EgressGateway to true, or to false, in ConfigMap nodewall-config (docs/egress-operations.md)',
      ),
    );
  return lines;
}

function unset(why: string, nodes: readonly NodeReport[] | null): CheckLine {
  const check = 'feature gate';
  if (nodes === null)
    return problem(check, `it has no value (${why}); nodes that enforce go on, new ones do not`, SWITCH_ON);
  const count = nodes.filter(({ enabled }) => enabled).length;
  if (count === 0) return warning(check, `it has no value (${why}): nothing is enforced`, SWITCH_ON);
  return problem(check, `it has no value (${why}); ${goOn(count, 'enforcing')}, new ones do not`, SWITCH_ON);
}

function goOn(count: number, what: string): string {
  return count === 1 ? `1 node goes on ${what}` : `${count} nodes go on ${what}`;
}

/** Null: no controller tells them. */
async function reports(request: KubeApi): Promise<readonly NodeReport[] | null> {
  interface Views {
    readonly items?: readonly { readonly status?: NodeReport }[];
  }
  try {
    const { items = [] } = await request<Views>({ method: 'GET', path: NODE_VIEWS_PATH });
    return items.flatMap(({ status }) => status ?? []);
  } catch (error) {
    if (!isKubeError(error)) throw error;
    return null;
  }
}
