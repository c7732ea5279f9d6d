import fc from 'fast-check';
import type { Flow } from '../oracle/flow.ts';
import { familyOf, randomAddress } from './address.ts';
import { type Feature, oneOf, weighted, withoutUndefined } from './choice.ts';

interface Targets {
  /** Addresses of the Node under test. */
  readonly own: string[];
  /** Addresses of Nodes and pods. */
  readonly known: string[];
  readonly features: ReadonlySet<Feature>;
}

const directions = fc.constantFrom<Flow['direction']>('ingress', 'egress');

/**
 * Traffic that exemptions and anti-spoofing are about, and its close neighbours: half of a pair
 * wrong, a type beside; with NodePort policies also what those leave alone.
 */
export function exemptTraffic({ own, known, features }: Targets): fc.Arbitrary<Flow> {
  const local = oneOf([...own, '127.0.0.1', '127.255.0.3', '::1']);
  const peers = (text: string) =>
    [...own, '127.0.0.1', '::1'].filter((one) => familyOf(one) === familyOf(text));
  const loopback = fc
    .record({ direction: directions, src: local, dstPort: fc.constantFrom(22, 6443, 80) })
    .chain(
      ({ src, ...rest }): fc.Arbitrary<Flow> =>
        oneOf(peers(src)).map((dst) => ({ ...rest, src, dst, protocol: 'tcp' })),
    );
  const multicast = fc.record({
    direction: directions,
    src: randomAddress(6),
    dst: fc.constantFrom('ff02:0:0:0:0:0:0:1', 'fd00:1:0:0:0:0:0:1'),
    protocol: fc.constantFrom('icmpv6', 58),
    icmpType: fc.constantFrom(129, 130, 131, 132, 133, 134, 135, 136, 137, 142, 143, 144),
    icmpCode: fc.constant(0),
  });
  const localPods = fc.record({
    direction: weighted([1, directions], [3, fc.constant<Flow['direction']>('egress')]),
    interfaceGroup: fc.constantFrom('pods', 8, 9, 20, 'clusternet'),
    dst: known.length === 0 ? randomAddress(4) : weighted([1, randomAddress(4)], [5, oneOf(known)]),
    srcPort: fc.constant(40_000),
    protocol: fc.constantFrom('tcp', 'udp', 'sctp'),
    dstPort: fc.constantFrom(53, 80, 8080),
  });
  const leftAlone: fc.Arbitrary<Flow> = fc.record({
    direction: fc.constant<'ingress'>('ingress'),
    src: weighted([3, local], [1, oneOf(['10.1.0.1', 'fd00:1:0:0:0:0:0:1'])]),
    interfaceGroup: fc.constantFrom('pods', 8, 9, 20, 0),
    protocol: fc.constantFrom('tcp', 'udp', 'sctp'),
    dstPort: fc.constantFrom(80, 443, 30000),
    traffic: fc.constant<'NodePort'>('NodePort'),
  });
  return weighted<Flow>(
    [2, loopback],
    [2, multicast],
    [2, dhcp()],
    [3, localPods],
    [3, spoofed(own, known)],
    [features.has('nodePort') ? 1 : 0, leftAlone],
  );
}

/**
 * With the address of a Node or a pod, by an interface of pods or another; traffic that an
 * exemption or a rule for NodePorts would accept among it.
 */
function spoofed(own: string[], known: string[]): fc.Arbitrary<Flow> {
  const sources = oneOf([...own, ...own, ...known, '127.0.0.1', '127.255.0.3', '::1', '10.1.0.1']);
  const services = fc.constantFrom<Partial<Flow>>(
    { protocol: 'tcp', srcPort: 40_000, dstPort: 6443 },
    { protocol: 'tcp', srcPort: 40_000, dstPort: 80, traffic: 'NodePort' },
    { protocol: 'udp', srcPort: 67, dstPort: 68 },
    { protocol: 47 },
    {},
  );
  const groups = fc.constantFrom('pods', 'pods', 8, 20, 'clusternet', 0, undefined);
  return fc
    .record({ src: sources, service: services, interfaceGroup: groups })
    .chain(({ src, service, ...rest }) => {
      const near = own.filter((text) => familyOf(text) === familyOf(src));
      const dst = near.length === 0 ? randomAddress(familyOf(src)) : oneOf(near);
      return fc
        .record({
          direction: weighted([4, fc.constant('ingress' as const)], [1, fc.constant('egress' as const)]),
          dst,
        })
        .map(({ direction, dst: to }): Flow => {
          const { traffic, ...plain } = service;
          const asked = direction === 'ingress' && traffic !== undefined ? { traffic } : {};
          return withoutUndefined({ direction, src, dst: to, ...rest, ...plain, ...asked }) as Flow;
        });
    });
}

function dhcp(): fc.Arbitrary<Flow> {
  const ofLink = { 4: '255.255.255.255', 6: 'fe80:0:0:0:0:0:0:7' };
  return fc.constantFrom<4 | 6>(4, 6).chain((family) =>
    fc.record({
      direction: directions,
      src: randomAddress(family),
      dst: weighted([1, randomAddress(family)], [2, fc.constant(ofLink[family])]),
      protocol: fc.constantFrom('udp', 'udp', 17, 'tcp'),
      srcPort: fc.constantFrom(67, 68, 546, 547),
      dstPort: fc.constantFrom(67, 68, 546, 547),
    }),
  );
}
