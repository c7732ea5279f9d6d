import fc from 'fast-check';
import type { Manifest } from '../../oracle/manifest.ts';
import { maybe, oneOf, weighted, withoutUndefined } from '../choice.ts';
import { labelsFrom, namespaceLabels, podLabels } from '../selector.ts';
import { GATEWAYS, NAMESPACES, NODE_LABELS } from './gateway.ts';

/** A Node as far as egress gateways read it. */
export interface NodeManifest extends Manifest {
  spec: { podCIDRs?: string[] };
  status: { addresses: { type: string; address: string }[] };
}

/** A Pod as far as egress gateways read it. */
export interface PodManifest extends Manifest {
  spec: { nodeName?: string; hostNetwork?: boolean };
  status: { phase?: string; podIP?: string; podIPs?: { ip: string }[] };
}

/** Nodes, Namespaces, Pods. */
export interface Members {
  nodes: NodeManifest[];
  namespaces: Manifest[];
  pods: PodManifest[];
}

export function members(size: number): fc.Arbitrary<Members> {
  const nodes = fc
    .array(node(), { minLength: 1, maxLength: 5, size: 'max' })
    .map((list) => list.map((draw, i) => draw(i)));
  const namespaces = fc
    .uniqueArray(oneOf(NAMESPACES.filter((name) => name !== 'lost')), { maxLength: 3 })
    .chain((names) => fc.tuple(...names.map(namespace)));
  const pods = fc.array(pod(), { minLength: 1, maxLength: size, size: 'max' });
  return fc.record({ nodes, namespaces, pods }).map((drawn) => ({
    ...drawn,
    pods: withOwnAddresses(drawn.pods.map((draw, i) => draw(`pod-${i}`, drawn.nodes))),
  }));
}

function node(): fc.Arbitrary<(index: number) => NodeManifest> {
  return fc
    .record({
      labels: labelsFrom(NODE_LABELS),
      families: weighted([6, fc.constant('46')], [3, fc.constant('4')], [1, fc.constant('6')]),
      external: maybe(30, fc.constantFrom('198.51.100.', '2001:db8:a::')),
      annotation: maybe(20, fc.constantFrom('10.8.0.', ' nonsense, fd08::')),
      pods: weighted(
        [6, fc.constant('46')],
        [2, fc.constant('4')],
        [1, fc.constant('6')],
        [1, fc.constant('')],
      ),
      strange: maybe(
        10,
        fc.constantFrom('0.0.0.0/0', '8.8.0.0/16', '2001:db8:f::/48', '10.0.0.0/7', '10.0.0.0/8'),
      ),
    })
    .map((drawn) => (index: number) => {
      const host = index + 1;
      const internal = [...only(drawn.families, `10.0.0.${host}`, `fd00::${host}`)];
      const addresses = [
        ...internal.map((address) => ({ type: 'InternalIP', address })),
        ...(drawn.external === undefined
          ? []
          : [{ type: 'ExternalIP', address: `${drawn.external}${host}` }]),
        { type: 'Hostname', address: `192.0.2.${90 + host}` },
      ];
      const annotations =
        drawn.annotation === undefined
          ? undefined
          : { 'nodewall.io/addresses': `${drawn.annotation}${host}` };
      const podCIDRs = [
        ...(drawn.strange === undefined ? [] : [drawn.strange]),
        ...only(drawn.pods, `10.1.${index}.0/24`, `fd01:0:0:${index}::/64`),
      ];
      return {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: withoutUndefined({
          name: `node-${index}`,
          labels: drawn.labels,
          annotations,
        }) as NodeManifest['metadata'],
        spec: podCIDRs.length === 0 ? {} : { podCIDRs },
        status: { addresses },
      };
    });
}

/** Those of the two that the families are there for. */
function only(families: string, v4: string, v6: string): string[] {
  return [...(families.includes('4') ? [v4] : []), ...(families.includes('6') ? [v6] : [])];
}

function namespace(name: string): fc.Arbitrary<Manifest> {
  return fc.tuple(labelsFrom(namespaceLabels), maybe(30, oneOf(GATEWAYS))).map(([own, gateway]) => {
    const labels = gateway === undefined ? own : { ...own, 'nodewall.io/egress-gateway': gateway };
    return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
  });
}

function pod(): fc.Arbitrary<(name: string, nodes: readonly NodeManifest[]) => PodManifest> {
  return fc
    .record({
      namespace: oneOf(NAMESPACES),
      labels: labelsFrom(podLabels),
      node: maybe(90, fc.nat({ max: 4 })),
      hostNetwork: weighted([7, fc.constant(undefined)], [1, fc.boolean()]),
      phase: weighted<string | undefined>(
        [8, fc.constant('Running')],
        [1, fc.constantFrom('Pending', undefined)],
        [1, fc.constantFrom('Succeeded', 'Failed')],
      ),
      place: weighted(
        [7, fc.constant('own')],
        [1, fc.constantFrom('elsewhere', 'outside')],
        [1, fc.constant('none')],
      ),
      families: weighted([5, fc.constant('46')], [3, fc.constant('4')], [2, fc.constant('6')]),
      host: fc.constantFrom('1', '2', '3', '4', '5', '6', '7', 'fe'),
      isListed: weighted([4, fc.constant(true)], [1, fc.constant(false)]),
    })
    .map((drawn) => (name: string, nodes: readonly NodeManifest[]) => {
      const host = Number.parseInt(drawn.host, 16);
      const index = drawn.node === undefined ? 0 : drawn.node % nodes.length;
      const ips = {
        own: [`10.1.${index}.${host}`, `fd01:0:0:${index}::${drawn.host}`],
        elsewhere: [`10.9.0.${host}`, `fd09::${drawn.host}`],
        outside: [`8.8.4.${host}`, `2001:db8:f:8::${drawn.host}`],
        none: ['', ''],
      }[drawn.place] as [string, string];
      const own = only(drawn.families, ...ips).filter((text) => text !== '');
      const ofNode = (nodes[index]?.status.addresses ?? []).map(({ address }) => address).slice(0, 1);
      const addresses = drawn.hostNetwork === true ? ofNode : own;
      return {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, namespace: drawn.namespace, labels: drawn.labels },
        spec: withoutUndefined({
          nodeName: drawn.node === undefined ? undefined : `node-${index}`,
          hostNetwork: drawn.hostNetwork,
        }),
        status: withoutUndefined({
          phase: drawn.phase,
          podIP: addresses[0],
          podIPs: drawn.isListed && addresses.length > 0 ? addresses.map((ip) => ({ ip })) : undefined,
        }),
      };
    });
}

/** No two running pods with one address; a finished pod's may be another's by now. */
function withOwnAddresses(pods: readonly PodManifest[]): PodManifest[] {
  const taken = new Set<string>();
  return pods.map((one) => {
    const { phase, podIP, podIPs } = one.status;
    if (one.spec.hostNetwork === true || phase === 'Succeeded' || phase === 'Failed') return one;
    const all = podIPs?.map(({ ip }) => ip) ?? (podIP === undefined ? [] : [podIP]);
    if (all.every((ip) => !taken.has(ip))) {
      for (const ip of all) taken.add(ip);
      return one;
    }
    return { ...one, status: withoutUndefined({ phase }) };
  });
}
