import fc from 'fast-check';
import type { Manifest, NodeManifest, PodManifest } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import { addressNear, toPool } from './address.ts';
import { fields, maybe, oneOf, weighted, withoutUndefined } from './choice.ts';
import { labelsFrom, namespaceLabels, namespaceNames, nodeLabels, podLabels } from './selector.ts';

/** The name of the Node that scenarios look from. */
export const nodeUnderTest = 'node-0';

/** Names of the service accounts that pods may have beside `default`. */
export const serviceAccountNames = ['default', 'bot', 'operator'];

/** The objects that peers resolve to. */
export interface ClusterObjects {
  nodes: NodeManifest[];
  namespaces: Manifest[];
  pods: PodManifest[];
}

/** Nodes, Namespaces and Pods; size is about the number of pods. */
export function cluster(size: number, plan?: AddressPlan): fc.Arbitrary<ClusterObjects> {
  const others = fc.array(node(plan), { minLength: 0, maxLength: Math.ceil(size / 3) });
  const pods = fc.array(pod(plan), { minLength: Math.floor(size / 3), maxLength: size });
  return fc.record({
    nodes: fc
      .tuple(plan === undefined ? node() : plannedNode(plan), others)
      .map(([first, rest]) => [first, ...rest].map((item, index) => named(item, `node-${index}`))),
    namespaces: fc.uniqueArray(namespace(), {
      maxLength: 3,
      selector: (item) => item.metadata.name,
    }),
    pods: pods.map((list) => list.map((item, index) => named(item, `pod-${index}`))),
  });
}

function named<T extends Manifest>(item: T, name: string): T {
  return { ...item, metadata: { ...item.metadata, name } };
}

function node(plan?: AddressPlan): fc.Arbitrary<NodeManifest> {
  const pool = toPool(plan);
  const family = fc.constantFrom<4 | 6>(4, 6);
  const address = family.chain((version) => addressNear(pool, version));
  const reported = fc.record({
    type: fc.constantFrom('InternalIP', 'InternalIP', 'InternalIP', 'ExternalIP', 'ExternalDNS'),
    address,
  });
  const noted = fc.array(weighted([6, address], [1, fc.constant('unreadable')]), {
    minLength: 1,
    maxLength: 2,
  });
  const annotation = fc
    .tuple(noted, fc.constantFrom(',', ', ', ' , '))
    .map(([list, comma]) => list.join(comma));
  return fc
    .record({
      labels: labelsFrom(nodeLabels),
      annotation: maybe(20, annotation),
      platform: maybe(50, platform()),
      addresses: fc.array(reported, { minLength: 1, maxLength: 3 }),
    })
    .map(({ labels, annotation: text, platform: carries, addresses }) =>
      toNode(labels, { addresses: text, platform: carries }, addresses),
    );
}

/** The annotation for carrying pods; the aims of aim.ts come close. */
function platform(): fc.Arbitrary<string> {
  const ports = ['udp/8472', 'udp/51820', 'tcp/10349-10351', 'tcp/4240', 'sctp/36412'];
  const item = weighted(
    [5, fc.constantFrom(...ports)],
    [5, fc.constantFrom('ipip', 'ipv6', 'gre', 'esp', 'ah', 'vrrp')],
    [1, fc.constantFrom('nonsense', 'udp/0', 'tcp/9-8', '47')],
  );
  return fc
    .tuple(fc.array(item, { minLength: 1, maxLength: 8 }), fc.constantFrom(',', ', ', ' , '))
    .map(([items, comma]) => items.join(comma));
}

/**
 * The node under test in a kernel test: its addresses are the plan's, the last one by annotation
 * now and then.
 */
function plannedNode(plan: AddressPlan): fc.Arbitrary<NodeManifest> {
  const all = plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]);
  return fc.tuple(labelsFrom(nodeLabels), fc.boolean()).map(([labels, isAnnotated]) => {
    const reported = isAnnotated ? all.slice(0, -1) : all;
    const addresses = reported.map((address) => ({ type: 'InternalIP', address }));
    return toNode(
      labels,
      { addresses: isAnnotated ? all.at(-1) : undefined, platform: undefined },
      addresses,
    );
  });
}

interface NodeAnnotations {
  addresses: string | undefined;
  platform: string | undefined;
}

function toNode(labels: object, noted: NodeAnnotations, addresses: object[]): NodeManifest {
  const texts = { 'nodewall.io/addresses': noted.addresses, 'nodewall.io/platform': noted.platform };
  const given = withoutUndefined(texts);
  const annotations = Object.keys(given).length === 0 ? undefined : given;
  const metadata = withoutUndefined({ name: '', labels, annotations });
  return { apiVersion: 'v1', kind: 'Node', metadata, status: { addresses } } as NodeManifest;
}

function namespace(): fc.Arbitrary<Manifest> {
  const declared = namespaceNames.filter((name) => name !== 'lost');
  return fc
    .tuple(oneOf(declared), labelsFrom(namespaceLabels), fc.boolean())
    .map(([name, own, isLabelled]) => {
      const labels = isLabelled ? { ...own, 'kubernetes.io/metadata.name': name } : own;
      return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
    });
}

function pod(plan?: AddressPlan): fc.Arbitrary<PodManifest> {
  const pool = toPool(plan);
  const v4 = addressNear(pool, 4);
  const v6 = addressNear(pool, 6);
  const addresses = weighted<string[]>(
    [4, fc.tuple(v4)],
    [2, fc.tuple(v6)],
    [4, fc.tuple(v4, v6)],
    [1, fc.constant([])],
  );
  const status = fc
    .record({
      phase: weighted<string | undefined>(
        [7, fc.constant('Running')],
        [2, fc.constantFrom('Pending', 'Unknown', undefined)],
        [2, fc.constantFrom('Succeeded', 'Failed')],
      ),
      addresses,
      isListed: weighted([3, fc.constant(true)], [1, fc.constant(false)]),
    })
    .map((drawn) => {
      const podIPs = drawn.isListed ? drawn.addresses.map((ip) => ({ ip })) : undefined;
      return withoutUndefined({ phase: drawn.phase, podIP: drawn.addresses[0], podIPs });
    });
  const spec = fields<NonNullable<PodManifest['spec']>>({
    hostNetwork: weighted<boolean | undefined>([6, fc.constant(undefined)], [1, fc.boolean()]),
    serviceAccountName: maybe(50, oneOf(serviceAccountNames)),
    // In kernel tests no pod has interfaces of its own.
    nodeName: plan === undefined ? maybe(50, oneOf([nodeUnderTest, 'node-1'])) : fc.constant(undefined),
  });
  return fc
    .record({ namespace: oneOf(namespaceNames), labels: labelsFrom(podLabels), spec, status })
    .map(({ namespace: name, labels, ...rest }) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: '', namespace: name, labels },
      ...rest,
    }))
    .chain((drawn) => weighted<PodManifest>([5, fc.constant(drawn)], [1, fc.constant(asController(drawn))]));
}

/** The pod as one of nodewall's own controllers. */
function asController({ metadata, spec, ...rest }: PodManifest): PodManifest {
  return {
    ...rest,
    metadata: { ...metadata, namespace: 'nodewall-system' },
    spec: { ...spec, serviceAccountName: 'nodewall-controller' },
  };
}
