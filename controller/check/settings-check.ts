import { parseConfig } from '../../apis/config-file.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { asFields, asList } from '../../apis/schema/json-schema.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { FAMILIES, type Family, formatCidr, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { toCidrs, toInterval, union } from '../../lib/net/interval.ts';
import { type CheckLine, ok, problem, warning } from '../../lib/process/check-line.ts';
import {
  GATE_ANNOTATIONS,
  type GateName,
  gateSetting,
  parseGate,
} from '../kubeapi/configmap/feature-gate.ts';
import { type KubeApi, listObjects } from '../kubeapi/kube-api.ts';
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

const CHECK = 'networks';
const MOST_NODES = 15_000;
/** Beyond so many networks of a family, one that has them all is shown. */
const MOST_SHOWN = 2;
const OF_NODES =
  'a kubelet can claim an address that nothing in the cluster has for its Node, and public addresses that only agents report do not count';
const OF_GATEWAYS =
  'what kubelets say of their Nodes and pods can count as inside of the cluster, where no egress policy holds';
/** Single addresses of Nodes are shown as networks of this length. */
const NODE_NETWORK = { 4: 24, 6: 64 } as const;

/** Whether the configuration has the networks of Nodes, with egress gateways those of pods. */
export async function clusterNetworks(request: KubeApi): Promise<readonly CheckLine[]> {
  const map = await readObject(request, CONFIG);
  const { config } = parseConfig(map?.data?.['config.yaml'] ?? '', 'config.yaml');
  if (config === null) return [];
  const { nodeCIDRs, egress } = config;
  const isSteering = config.featureGates.EgressGateway === true;
  const hasPods = !isSteering || egress.podCIDRs.length > 0;
  if (nodeCIDRs.length > 0 && hasPods)
    return [ok(CHECK, `the configuration names those of ${isSteering ? 'pods and ' : ''}Nodes`)];
  const { objects } = await listObjects(request, { path: '/api/v1/nodes' }, MOST_NODES);
  const ofPods = objects.flatMap(({ spec }) => asList(asFields(spec)?.podCIDRs).map(String));
  const ofNodes = objects.flatMap(({ status }) =>
    asList(asFields(status)?.addresses).map((one) => String(asFields(one)?.address)),
  );
  const missing = [
    ...(hasPods ? [] : [{ field: 'egress.podCIDRs', line: `egress: {podCIDRs: [${shown(ofPods)}]}` }]),
    ...(nodeCIDRs.length > 0
      ? []
      : [{ field: 'nodeCIDRs', line: `nodeCIDRs: [${shown(ofNodes.flatMap(networkOf))}]` }]),
  ];
  return [
    warning(
      CHECK,
      `not set: ${missing.map(({ field }) => field).join(', ')}; ${isSteering ? OF_GATEWAYS : OF_NODES}`,
      `add to config.yaml in ConfigMap nodewall-config, if it is right (Nodes say so now): ${missing.map(({ line }) => line).join('; ')}`,
    ),
  ];
}

function networkOf(text: string): string[] {
  const address = parseAddress(text);
  if (address === null) return [];
  return [`${text}/${NODE_NETWORK[address.family]}`];
}

/** CIDRs, merged; for many of a family the smallest one that has them. */
function shown(texts: readonly string[]): string {
  const cidrs = texts.flatMap((text) => parseCidr(text)?.cidr ?? []);
  return FAMILIES.flatMap((family) => {
    const ranges = union(cidrs.filter((cidr) => cidr.family === family).map(toInterval));
    const merged = ranges.flatMap((range) => toCidrs(family, range)).map(formatCidr);
    return merged.length <= MOST_SHOWN ? merged : [common(family, ranges)];
  }).join(', ');
}

function common(
  family: Family,
  ranges: readonly { readonly first: bigint; readonly last: bigint }[],
): string {
  const [first, last] = [ranges[0]?.first ?? 0n, ranges.at(-1)?.last ?? 0n];
  let length = family === 4 ? 32 : 128;
  let differs = first ^ last;
  for (; differs > 0n; differs >>= 1n) length--;
  const host = BigInt((family === 4 ? 32 : 128) - length);
  return formatCidr({ family, value: (first >> host) << host, length });
}
