/**
 * Values of NodeEgress for the nodes of a lab, made by hand: stages 5 and 6 can be tested with them
 * whatever the controller makes of objects.
 */
import type {
  EgressArrival,
  EgressClass,
  EgressOutcome,
  EgressSlot,
  EgressTake,
  NodeEgress,
  TunnelEnd,
} from '../../apis/egress/node-egress.ts';
import { parseCidr } from '../../lib/net/address.ts';
import { type MemberSet, NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';

/** What a lab of nodes has; egress-lab.ts makes it of namespaces. */
export interface Places {
  readonly nodes: readonly { readonly name: string; readonly v4: string; readonly v6: string }[];
  readonly pods: readonly {
    readonly name: string;
    readonly node: string;
    readonly v4: string;
    readonly v6: string;
  }[];
}

/** Pods, and the gateway nodes by one of which they leave, each with its own address. */
interface Steering {
  readonly pods: readonly string[];
  readonly gateways: readonly string[];
  readonly policy?: string;
}

export const INSIDE: MemberSet = members([
  '10.244.0.0/16',
  'fd00:10:244::/48',
  '192.0.2.0/25',
  '2001:db8:a::/64',
  '169.254.0.0/16',
  'fe80::/10',
  '224.0.0.0/4',
  'ff00::/8',
]);

const ALL = { 4: { first: 0n, last: (1n << 32n) - 1n }, 6: { first: 0n, last: (1n << 128n) - 1n } } as const;
/** The one take of a gateway: its own address. */
const OWN_ADDRESS = 1;

export function tunnelEnd({ nodes }: Places, name: string, family: 4 | 6 = 4): TunnelEnd {
  const index = nodes.findIndex((node) => node.name === name);
  const node = nodes[index];
  if (node === undefined) throw new Error(`no node ${name}`);
  const mac = `0e:00:00:00:00:${(index + 1).toString(16).padStart(2, '0')}`;
  return { node: name, address: family === 4 ? node.v4 : node.v6, mac };
}

/** What each node does. `unknown`: pods that the controller has not told the nodes of. */
export function nodeEgress(
  places: Places,
  name: string,
  steerings: readonly Steering[],
  { unknown = [], underlay = 4 }: { readonly unknown?: readonly string[]; readonly underlay?: 4 | 6 } = {},
): NodeEgress {
  const own = places.pods.filter(({ node }) => node === name);
  const slots = new Map<number, EgressSlot>();
  const outcomes = new Map<string, EgressOutcome>();
  const classes = new Map<string, EgressClass>();
  const sources = new Map<string, string | null>();
  // The number of a gateway's slot is the same on all nodes: its place among them.
  const slotOf = (gateway: string): number => {
    const number = 1 + places.nodes.findIndex((node) => node.name === gateway);
    slots.set(number, { number, node: gateway, take: gateway === name ? OWN_ADDRESS : 0 });
    return number;
  };
  for (const { v4, v6, name: pod } of own) {
    if (unknown.includes(pod)) continue;
    const steering = steerings.find(({ pods }) => pods.includes(pod));
    for (const address of [v4, v6]) sources.set(address, steering === undefined ? null : toId(steering));
    if (steering === undefined) continue;
    const id = toId(steering);
    outcomes.set(id, {
      id,
      policy: {
        kind: 'EgressPolicy',
        namespace: 'default',
        name: steering.policy ?? 'steered',
        apiGroup: 'nodewall.io',
      },
      audited: [],
      action: { kind: 'slots', slots: steering.gateways.map(slotOf) },
    });
    classes.set(id, {
      id,
      ipv4: [{ range: ALL[4], outcome: id }],
      ipv6: [{ range: ALL[6], outcome: id }],
    });
  }
  const arrivals = new Map<string, EgressArrival>();
  const peers = new Map<string, TunnelEnd>();
  for (const steering of steerings.filter(({ gateways }) => gateways.includes(name))) {
    for (const pod of places.pods.filter((one) => steering.pods.includes(one.name) && one.node !== name)) {
      peers.set(pod.node, tunnelEnd(places, pod.node, underlay));
      for (const [address, range] of [
        [pod.v4, ALL[4]],
        [pod.v6, ALL[6]],
      ] as const)
        arrivals.set(address, { node: pod.node, takes: [{ range, take: OWN_ADDRESS }] });
    }
  }
  for (const { node } of slots.values())
    if (node !== name) peers.set(node, tunnelEnd(places, node, underlay));
  const isGateway = steerings.some(({ gateways }) => gateways.includes(name));
  const take: EgressTake = { kind: 'node', interface: null };
  return {
    tunnel: tunnelEnd(places, name, underlay),
    inside: INSIDE,
    unknownPods: 'Hold',
    nodes: toMemberSet(
      [],
      places.nodes.flatMap(({ v4, v6 }) => [v4, v6]),
    ),
    pods: new Map(),
    served: new Map(),
    sources,
    subnets: [],
    classes,
    outcomes,
    slots,
    peers,
    arrivals,
    takes: isGateway ? new Map([[OWN_ADDRESS, take]]) : new Map(),
    floating: NO_MEMBERS,
    owned: [],
    candidacies: [],
  };
}

function toId({ policy = 'steered', gateways }: Steering): string {
  return [policy, ...gateways].join(' ');
}

function members(cidrs: readonly string[]): MemberSet {
  return toMemberSet(
    cidrs.flatMap((text) => {
      const parsed = parseCidr(text);
      return parsed === null ? [] : [{ cidr: parsed.cidr, except: [] }];
    }),
    [],
  );
}
