/** A scenario drawn at random, with the flows of it that real packets can have. */
import { ALL_FEATURES, type Scenario, sample } from '../generate/scenario.ts';
import {
  icmpTypes,
  icmpv6Types,
  igmpGroups,
  igmpTypes,
  ofNodePort,
  protocolGroups,
} from '../generate/service.ts';
import { addressPlan } from '../netns/topology.ts';
import { type Flow, type PartialFlow, toCompleteFlow } from './flow.ts';

/** The second client stands behind the interface group of pods, the third behind clusternet's. */
export const PLAN = addressPlan({
  clients: 3,
  groups: [0, 8, 9],
  addressesPerClient: 5,
  nodeAddresses: 2,
  multicastGroups: [...igmpGroups, ...protocolGroups],
});

interface Drawn {
  readonly scenario: Scenario;
  readonly flows: readonly Flow[];
}

/**
 * The same seed, the same scenario, all of whose addresses are of PLAN. Every other one has names,
 * if it may have any.
 */
export function draw(seed: number, { flows: count, names }: { flows: number; names: boolean }): Drawn {
  // The generator's plan is mutable, ours isn't.
  const plan = { nodeAddresses: [...PLAN.nodeAddresses], clientAddresses: [...PLAN.clientAddresses] };
  const features = ALL_FEATURES.filter((feature) => feature !== 'fqdn' || (names && seed % 2 === 1));
  const drawn = sample(seed, { size: 4 + (seed % 5) * 4, plan, flows: count, features });
  const scenario = seed % 4 === 0 ? { ...drawn, objects: drawn.objects.map(ofNodePort) } : drawn;
  const flows = [...scenario.flows, ...asNodePort(scenario.flows), ...unusualFlows()]
    .map((flow, i) => toCompleteFlow(flow, PLAN, seed + i))
    .filter((flow) => flow !== undefined);
  return { scenario, flows };
}

/**
 * The same to a pod behind NAT: Host rules must not matter for it, nor NodePort rules for the
 * others.
 */
function asNodePort(flows: readonly PartialFlow[]): PartialFlow[] {
  return flows
    .filter(({ direction, traffic }) => direction === 'ingress' && traffic !== 'NodePort')
    .map((flow) => ({ ...flow, traffic: 'NodePort' }));
}

/**
 * What nobody draws often: exempt traffic, rare protocols, ICMP errors, IGMP, the Node with itself.
 */
function unusualFlows(): PartialFlow[] {
  return (['ingress', 'egress'] as const).flatMap((direction): PartialFlow[] => {
    const icmp = icmpTypes.flatMap((icmpType) => [0, 1].map((icmpCode) => ({ icmpType, icmpCode })));
    const icmpv6 = [...icmpv6Types, 133, 134, 136, 137, 130].map((icmpType) => ({ icmpType, icmpCode: 0 }));
    const dhcp = [
      [67, 68],
      [68, 67],
      [546, 547],
      [547, 546],
    ].map(([srcPort = 0, dstPort = 0]) => ({ protocol: 'udp', srcPort, dstPort }));
    const families = [{ src: '192.0.2.1' }, { src: '2001:db8::1' }];
    return [
      ...icmp.map((one) => ({ direction, src: '192.0.2.1', protocol: 'icmp', ...one })),
      ...icmpv6.map((one) => ({ direction, src: '2001:db8::1', protocol: 'icmpv6', ...one })),
      ...igmpGroups.flatMap((dst) =>
        igmpTypes.map((igmpType) => ({ direction, dst, protocol: 'igmp', igmpType })),
      ),
      ...protocolGroups.flatMap((dst) => [47, 89, 112].map((protocol) => ({ direction, dst, protocol }))),
      ...families.flatMap((family) => [
        ...dhcp.map((one) => ({ direction, ...family, ...one })),
        ...[4, 47, 50, 89, 112, 255].map((protocol) => ({ direction, ...family, protocol })),
      ]),
    ];
  });
}
