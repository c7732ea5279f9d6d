import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { toMembers } from '../../agent/receive/patch.ts';
import {
  type EgressArrival,
  type EgressClass,
  type EgressOutcome,
  type EgressSlot,
  type NodeEgress,
  podKey,
} from '../../apis/egress/node-egress.ts';
import { fakeNodeEgress } from '../fake/egress-objects.ts';

export const EGRESS_NODES = ['a', 'b', 'c'] as const;

/** What a state of egress gateways is made of, so that any two differ in few places. */
export interface EgressModel {
  readonly inside: readonly string[];
  readonly nodes: readonly string[];
  /** Addresses of the first node's pods; '' has no class. */
  readonly sources: Readonly<Record<string, string>>;
  /** Last bytes of the destinations of the class. */
  readonly ranges: readonly number[];
  /** Pods that the second node serves, those with an even address by their class. */
  readonly arrivals: readonly string[];
  readonly slots: number;
  readonly direct: boolean;
}

export const SOME_EGRESS: EgressModel = {
  inside: ['10.0.0.0/8'],
  nodes: ['192.0.2.1'],
  sources: {},
  ranges: [1],
  arrivals: ['10.9.0.1'],
  slots: 1,
  direct: false,
};

const CIDRS = ['10.0.0.0/8', '192.168.0.0/16', 'fd00::/8', '198.51.100.7', '2001:db8::7'];
const pod = fc.integer({ min: 1, max: 40 }).map((n) => `10.9.0.${n}`);

export const MODEL: fc.Arbitrary<EgressModel> = fc.record({
  inside: fc.subarray(CIDRS),
  nodes: fc.subarray(['192.0.2.1', '192.0.2.2', '2001:db8::1']),
  sources: fc.dictionary(
    fc.integer({ min: 1, max: 9 }).map((n) => `10.0.0.${n}`),
    fc.constantFrom('', 'a', 'b'),
  ),
  ranges: fc.uniqueArray(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 3 }),
  arrivals: fc.uniqueArray(pod, { maxLength: 30 }),
  slots: fc.integer({ min: 1, max: 4 }),
  direct: fc.boolean(),
});

/** Node a has pods, b is a gateway, c has neither. Equal parts are those of the state before. */
export function egressOf(
  model: EgressModel,
  before: ReadonlyMap<string, NodeEgress> | undefined,
): ReadonlyMap<string, NodeEgress> {
  const shared = (key: 'inside' | 'nodes' | 'floating', members: readonly string[]) =>
    like(toMembers(key, members), before?.get('a')?.[key]);
  const [inside, nodes] = [shared('inside', model.inside), shared('nodes', model.nodes)];
  const floating = shared('floating', ['203.0.113.0/29']);
  const parts = { inside, nodes, floating, unknownPods: model.direct ? 'Pass' : 'Hold' } as const;
  return new Map(
    EGRESS_NODES.map((node) => {
      const was = before?.get(node);
      const now = fakeNodeEgress({
        ...parts,
        ...(node === 'a' ? source(model) : node === 'b' ? gateway(model) : {}),
      });
      const entries = Object.entries(now).map(([key, value]) => [key, like(value, was?.[key as 'slots'])]);
      return [node, like(Object.fromEntries(entries) as NodeEgress, was)];
    }),
  );
}

const END = { node: 'b', address: '192.0.2.2', mac: '0e:00:00:00:00:02' };

function source(model: EgressModel): Partial<NodeEgress> {
  const policy = { kind: 'EgressPolicy', apiGroup: 'nodewall.io', namespace: 'shop', name: 'p' } as const;
  const numbers = Array.from({ length: model.slots }, (_, i) => i + 1);
  const outcomes: EgressOutcome[] = [
    { id: 'go', policy, audited: [], action: { kind: 'slots', slots: numbers } },
    {
      id: 'safe',
      policy,
      audited: [],
      action: { kind: 'slots', slots: numbers.slice(0, 1), reserve: numbers.slice(1), otherwise: 'Direct' },
    },
    {
      id: 'rest',
      policy: null,
      audited: [policy],
      action: model.direct ? { kind: 'direct' } : { kind: 'drop', reason: 'not-ready' },
    },
  ];
  const ipv4 = model.ranges
    .toSorted((a, b) => a - b)
    .map((n) => {
      return { range: { first: BigInt(n), last: BigInt(n) }, outcome: n % 2 === 0 ? 'go' : 'rest' };
    });
  const classes: EgressClass[] = ['a', 'b'].map((id) => {
    return { id, ipv4, ipv6: [{ range: { first: 0n, last: (1n << 128n) - 1n }, outcome: 'go' }] };
  });
  const slots: EgressSlot[] = numbers.map((number) => ({
    number,
    node: 'b',
    take: 0,
    ...(number > 2 ? { floating: '0 nodewall.io/edge' } : {}),
  }));
  const known = Object.entries(model.sources).map(
    ([address, id]) => [address, id === '' ? null : id] as const,
  );
  return {
    tunnel: { node: 'a', address: '192.0.2.1', mac: '0e:00:00:00:00:01' },
    sources: new Map(known.toSorted(([a], [b]) => (a < b ? -1 : 1))),
    pods: new Map(known.map(([address, id]) => [podKey('shop', `p-${address}`, ''), id])),
    subnets: model.direct ? [{ family: 6, range: { first: 1n, last: 9n }, class: 'a' }] : [],
    classes: new Map(classes.map((one) => [one.id, one])),
    outcomes: new Map(outcomes.map((one) => [one.id, one])),
    slots: new Map(slots.map((one) => [one.number, one])),
    peers: new Map([['b', END]]),
  };
}

function gateway({ arrivals, slots }: EgressModel): Partial<NodeEgress> {
  const takes = [
    { range: { first: 0n, last: 9n }, take: 1 },
    ...(slots > 2 ? [{ range: { first: 11n, last: 12n }, take: 2 }] : []),
  ];
  const arrivalOf = (address: string): EgressArrival => {
    const own = { node: 'a', takes };
    return Number(address.slice(-1)) % 2 === 0 ? { ...own, class: 'go' } : own;
  };
  return {
    tunnel: END,
    peers: new Map([['a', { ...END, node: 'a' }]]),
    arrivals: new Map(arrivals.toSorted().map((address) => [address, arrivalOf(address)])),
    served: new Map([['go', { nodes: ['a'], ipv4: takes, ipv6: takes.slice(1) }]]),
    takes: new Map([
      [1, { kind: 'floating', ipv4: ['203.0.113.1'], ipv6: [] }],
      [2, { kind: 'node', interface: slots > 3 ? 'eth1' : null }],
    ]),
    owned: [
      {
        gateway: 'g',
        slot: '0',
        epoch: slots,
        announce: 'L2',
        leaseMilliseconds: 2000,
        addresses: ['203.0.113.1'],
      },
    ],
    candidacies: [
      {
        gateway: 'g',
        source: 'Floating',
        heartbeatMilliseconds: 500,
        probes: slots > 1 ? [{ address: '192.0.2.9', port: 443, seconds: 5, failures: 3 }] : [],
      },
    ],
  };
}

function like<T>(value: T, before: T | undefined): T {
  return before !== undefined && isDeepStrictEqual(value, before) ? before : value;
}
