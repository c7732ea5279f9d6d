import { parseConfig } from '../../apis/config-file.ts';
import { asFields, asList } from '../../apis/schema/json-schema.ts';
import { FAMILIES, type Family, formatCidr, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { toCidrs, toInterval, union } from '../../lib/net/interval.ts';
import { type CheckLine, ok, warning } from '../../lib/process/check-line.ts';
import { type KubeApi, listObjects } from '../kubeapi/kube-api.ts';
import { readObject } from './checked.ts';

const CHECK = 'networks';
const CONFIG = '/api/v1/namespaces/nodewall-system/configmaps/nodewall-config';
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
