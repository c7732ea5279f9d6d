import fc from 'fast-check';
import type {
  EndpointSliceManifest,
  Labels,
  Manifest,
  PodManifest,
  ServiceReference,
} from '../oracle/manifest.ts';
import type { AddressPlan, AddressPool } from './address.ts';
import { addressNear, toPool } from './address.ts';
import { maybe, oneOf, weighted, withoutUndefined } from './choice.ts';
import { podLabels } from './selector.ts';
import { commonPorts } from './service.ts';

/** The Services that may be there, by name; nobody declares the namespace `lost`. */
const known: ServiceReference[] = [
  { name: 'web', namespace: 'shop' },
  { name: 'web', namespace: 'lost' },
  { name: 'dns', namespace: 'infra' },
  { name: 'db', namespace: 'default' },
  { name: 'kubernetes', namespace: 'default' },
];
const ghost: ServiceReference = { name: 'ghost', namespace: 'shop' };

/** A Service by name: one that is there as a rule. */
export function serviceReference(): fc.Arbitrary<ServiceReference> {
  return weighted([12, oneOf(known)], [1, fc.constant(ghost)]);
}

/** Services with their EndpointSlices, and now and then a slice that belongs to no Service. */
export function clusterServices(plan?: AddressPlan): fc.Arbitrary<Manifest[]> {
  const pool = toPool(plan);
  const withSlices = (reference: ServiceReference) =>
    fc
      .tuple(maybe(90, service(reference, pool)), slices(reference, pool))
      .map(([found, list]): Manifest[] => (found === undefined ? [] : [found, ...list]));
  const strays = weighted<Manifest[]>([3, fc.constant([])], [1, slices(ghost, pool)]);
  return fc.tuple(...known.map(withSlices), strays).map((lists) => lists.flat());
}

/**
 * Single-stack, dual-stack, headless, not yet given an address; `clusterIP` alone or with the list.
 */
function service({ name, namespace }: ServiceReference, pool: AddressPool): fc.Arbitrary<Manifest> {
  const [v4, v6] = [addressNear(pool, 4), addressNear(pool, 6)];
  const addresses = weighted<string[]>(
    [4, fc.tuple(v4)],
    [2, fc.tuple(v6)],
    [2, fc.tuple(v4, v6)],
    [1, fc.tuple(v6, v4)],
    [2, fc.constant(['None'])],
    [1, fc.constant([])],
  );
  const port = fc.record({ protocol: protocol(), port: oneOf(commonPorts) }).map(withoutUndefined);
  const ports = fc.uniqueArray(port, {
    minLength: 1,
    maxLength: 3,
    selector: (item) => JSON.stringify(item),
  });
  return fc
    .record({ addresses, isListed: oneOf([true, true, true, false]), ports, selector: selector() })
    .map((drawn) => {
      const clusterIPs = drawn.isListed && drawn.addresses.length > 0 ? drawn.addresses : undefined;
      const clusterIP = clusterIPs?.[0] ?? drawn.addresses[0];
      const named = drawn.ports.map((item, index) => ({ name: `p${index}`, ...item, targetPort: 8080 }));
      const spec = withoutUndefined({ clusterIP, clusterIPs, selector: drawn.selector, ports: named });
      return { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec };
    });
}

/** Of the pods' vocabulary; absent or empty now and then, which selects nobody. */
function selector(): fc.Arbitrary<Labels | undefined> {
  const keys = Object.keys(podLabels);
  const one = oneOf(keys).chain((key) =>
    oneOf(podLabels[key] ?? []).map((value): Labels => ({ [key]: value })),
  );
  const both = fc.tuple(one, one).map(([first, second]): Labels => ({ ...first, ...second }));
  return weighted<Labels | undefined>([6, one], [1, both], [2, fc.constant(undefined)], [1, fc.constant({})]);
}

function slices({ name, namespace }: ServiceReference, pool: AddressPool): fc.Arbitrary<Manifest[]> {
  const slice = oneOf([4, 4, 6] as const).chain((family) => {
    const address = addressNear(pool, family);
    const conditions = fc.constantFrom(undefined, undefined, {}, { ready: true }, { ready: false });
    const endpoint = fc
      .record({ addresses: fc.array(address, { minLength: 1, maxLength: 2 }), conditions })
      .map((drawn) => withoutUndefined(drawn) as { addresses: string[] });
    const port = fc
      .record({ protocol: protocol(), port: maybe(92, oneOf(commonPorts)) })
      .map((drawn) => withoutUndefined(drawn) as { port?: number });
    return fc.record({
      addressType: fc.constant(`IPv${family}`),
      endpoints: fc.array(endpoint, { minLength: 0, maxLength: 3 }),
      ports: weighted<{ port?: number }[] | undefined>(
        [12, fc.array(port, { minLength: 1, maxLength: 2 })],
        [1, fc.constantFrom(undefined, [])],
      ),
    });
  });
  const label = maybe(95, fc.constant({ 'kubernetes.io/service-name': name }));
  const drawnSlices = fc.array(fc.tuple(slice, label), { minLength: 0, maxLength: 2 }).map((list) =>
    list.map(([drawn, labels], index): EndpointSliceManifest => {
      const metadata = { name: `${name}-${index}`, namespace, ...withoutUndefined({ labels }) };
      const rest = withoutUndefined({
        ...drawn,
        ports: drawn.ports?.map((item, place) => ({ name: `p${place}`, ...item })),
      });
      return { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata, ...rest };
    }),
  );
  return drawnSlices.chain((list) => {
    const addresses = list.flatMap(({ endpoints = [] }) => endpoints.flatMap((one) => one.addresses));
    const pods = addresses.map((address, i) => podBehind(address, { name: `${name}-${i}`, namespace }));
    return fc.tuple(...pods).map((drawn): Manifest[] => [...list, ...drawn.flat()]);
  });
}

/** The pod that has an endpoint's address: sometimes finished, or of another namespace. */
function podBehind(ip: string, metadata: ServiceReference): fc.Arbitrary<PodManifest[]> {
  const at = (own: ServiceReference, phase: string, hostNetwork?: boolean): PodManifest[] => {
    const spec = withoutUndefined({ hostNetwork });
    const status = { phase, podIPs: [{ ip }] };
    return [{ apiVersion: 'v1', kind: 'Pod', metadata: own, spec, status }];
  };
  const elsewhere = { name: `${metadata.namespace}-${metadata.name}`, namespace: 'infra' };
  return weighted<PodManifest[]>(
    [6, fc.constant(at(metadata, 'Running'))],
    [2, fc.constant(at(metadata, 'Running', true))],
    [1, fc.constant(at(metadata, 'Failed'))],
    [1, fc.constant(at(elsewhere, 'Running'))],
    [2, fc.constant([])],
  );
}

function protocol(): fc.Arbitrary<string | undefined> {
  return fc.constantFrom(undefined, 'TCP', 'TCP', 'UDP', 'SCTP');
}
