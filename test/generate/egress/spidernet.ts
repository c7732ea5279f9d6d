import fc from 'fast-check';
import type { Manifest } from '../../oracle/manifest.ts';
import { fields, maybe, oneOf, weighted } from '../choice.ts';
import { namespaceSelectors, podLabels, selectorOver } from '../selector.ts';
import { DESTINATIONS, GATEWAYS, NAMESPACES, NODE_SELECTOR } from './gateway.ts';
import type { NodeManifest } from './members.ts';

const VERSION = 'egressgateway.spidernet.io/v1beta1';

/** Pools that pair by position; every second case lacks IPv6. */
const POOL = {
  ipv4: ['203.0.114.1', '203.0.114.4-203.0.114.6', '203.0.114.8/30'],
  ipv6: ['2001:db8:d::1', '2001:db8:d::4-2001:db8:d::6', '2001:db8:d::8-2001:db8:d::9'],
};
const V4 = ['203.0.114.1', '203.0.114.4', '203.0.114.5', '203.0.114.6', '203.0.114.9', '203.0.114.10'];
const V6 = [
  '2001:db8:d::1',
  '2001:db8:d::4',
  '2001:db8:d::5',
  '2001:db8:d::6',
  '2001:db8:d::8',
  '2001:db8:d::9',
];

interface GatewayManifest extends Manifest {
  spec: { ippools: { ipv4: string[]; ipv6?: string[]; ipv4DefaultEIP?: string } };
  status?: { nodeList: { name: string; status: string }[] };
}

interface PolicyManifest extends Manifest {
  spec: {
    egressGatewayName?: string;
    egressIP?: { ipv4?: string; useNodeIP?: boolean; allocatorPolicy?: string };
  };
}

/** Manifests of egressgateway.spidernet.io: at most one gateway, policies of both kinds. */
export function spidernetObjects(nodes: readonly NodeManifest[]): fc.Arbitrary<Manifest[]> {
  return fc.boolean().chain((isDual) =>
    fc
      .record({
        gateway: gateway(isDual, nodes),
        policies: fc.uniqueArray(policy(isDual), {
          maxLength: 4,
          size: 'max',
          selector: ({ kind, metadata: { namespace, name } }) => `${kind} ${namespace} ${name}`,
        }),
        info: maybe(
          20,
          fc.constant(manifest('EgressClusterInfo', { name: 'default' }, { extraCidr: ['192.0.2.96/28'] })),
        ),
      })
      .map(({ gateway: one, policies, info }) => [
        withEips(one, policies),
        ...policies,
        ...(info === undefined ? [] : [info]),
      ]),
  );
}

/** Where the gateway has a status, every second policy has an address by it, of any node. */
function withEips(gateway: GatewayManifest, policies: readonly PolicyManifest[]): Manifest {
  const { status, spec } = gateway;
  if (status === undefined) return gateway;
  const isDual = spec.ippools.ipv6 !== undefined;
  const named = policies.flatMap((policy) => policy.spec.egressIP?.ipv4 || []);
  const free = V4.filter((address) => !named.includes(address));
  const eipOf = ({ spec: { egressIP } }: PolicyManifest): string | undefined => {
    if (egressIP?.useNodeIP === true) return undefined;
    if (egressIP?.allocatorPolicy === 'rr') return free.pop();
    return egressIP?.ipv4 || spec.ippools.ipv4DefaultEIP || free[0];
  };
  const entries = policies.flatMap((policy, i) => {
    const ipv4 = i % 2 === 0 && policy.spec.egressGatewayName === 'eg-0' ? eipOf(policy) : undefined;
    if (ipv4 === undefined) return [];
    const { name, namespace } = policy.metadata;
    const user = namespace === undefined ? { name } : { name, namespace };
    return [{ ipv4, ...(isDual ? { ipv6: V6[V4.indexOf(ipv4)] } : {}), policies: [user] }];
  });
  const nodeList = status.nodeList.map((node, at) => ({
    ...node,
    eips: entries.filter(({ ipv4 }) => V4.indexOf(ipv4) % status.nodeList.length === at),
  }));
  return { ...gateway, status: { nodeList } } as Manifest;
}

function gateway(isDual: boolean, nodes: readonly NodeManifest[]): fc.Arbitrary<GatewayManifest> {
  const ippools = fields<object & { ipv4DefaultEIP?: string; ipv6DefaultEIP?: string }>({
    ipv4DefaultEIP: maybe(50, fc.constantFrom('203.0.114.1', '203.0.114.10', '')),
    ipv6DefaultEIP: isDual
      ? maybe(50, fc.constantFrom('2001:db8:d::1', '2001:db8:d::9'))
      : fc.constant(undefined),
  }).map((defaults) => ({ ipv4: POOL.ipv4, ...(isDual ? { ipv6: POOL.ipv6 } : {}), ...defaults }));
  const statuses = fc.tuple(
    ...nodes.map(() => weighted([3, fc.constant('Ready')], [1, fc.constant('NotReady')])),
  );
  return fc
    .record({
      selector: NODE_SELECTOR,
      ippools,
      isDefault: maybe(50, fc.boolean()),
      statuses: maybe(40, statuses),
    })
    .map((drawn) => {
      const nodeList = drawn.statuses?.map((status, at) => ({
        name: nodes[at]?.metadata.name,
        status,
        eips: [],
      }));
      const spec = {
        ippools: drawn.ippools,
        nodeSelector: { selector: drawn.selector },
        ...(drawn.isDefault === undefined ? {} : { clusterDefault: drawn.isDefault }),
      };
      const found = manifest('EgressGateway', { name: 'eg-0' }, spec);
      return (nodeList === undefined ? found : { ...found, status: { nodeList } }) as GatewayManifest;
    });
}

function policy(isDual: boolean): fc.Arbitrary<PolicyManifest> {
  return fc.boolean().chain((isCluster) => {
    const podSelector = selectorOver(podLabels);
    const podSubnet = fc.subarray(['10.1.0.0/24', '10.1.1.0/29', 'fd01::/48'], { minLength: 1 });
    const namespaceSelector = namespaceSelectors();
    const appliedTo = weighted<object>(
      [3, fc.record({ podSelector })],
      [2, fc.record({ podSubnet })],
      [1, fc.record({ podSelector, podSubnet })],
      ...(isCluster
        ? [[2, fc.record({ podSelector, namespaceSelector })] as [number, fc.Arbitrary<object>]]
        : []),
    );
    const place = fc.nat({ max: V4.length - 1 });
    const fixed = place.map((at) => ({ ipv4: V4[at], ...(isDual ? { ipv6: V6[at] } : {}) }));
    const egressIP = weighted<object | undefined>(
      [3, fc.constant(undefined)],
      [2, fixed],
      [2, fc.constant({ allocatorPolicy: 'rr' })],
      [1, fc.constant({ useNodeIP: true })],
      [1, fc.constant({ ipv4: '', ipv6: '', allocatorPolicy: 'default' })],
    );
    const spec = fields<
      object & {
        appliedTo: object;
        egressGatewayName?: string;
        egressIP?: object;
        destSubnet?: string[];
        priority?: number;
      }
    >({
      appliedTo,
      egressGatewayName: weighted<string | undefined>(
        [6, fc.constant('eg-0')],
        [1, oneOf(GATEWAYS)],
        [2, fc.constantFrom('', undefined)],
      ),
      egressIP,
      destSubnet: maybe(50, fc.uniqueArray(oneOf(DESTINATIONS), { minLength: 1, maxLength: 2 })),
      priority: maybe(30, fc.constantFrom(1, 10, 1000, 1001)),
    });
    const metadata = isCluster
      ? fc.record({ name: fc.constantFrom('a', 'b', 's') })
      : fc.record({ name: fc.constantFrom('a', 's'), namespace: oneOf(NAMESPACES) });
    return fc
      .tuple(metadata, spec)
      .map(
        ([found, drawn]) =>
          manifest(isCluster ? 'EgressClusterPolicy' : 'EgressPolicy', found, drawn) as PolicyManifest,
      );
  });
}

function manifest(
  kind: string,
  metadata: Manifest['metadata'],
  spec: object,
): Manifest & { status?: object } {
  return { apiVersion: VERSION, kind, metadata, spec } as Manifest;
}
