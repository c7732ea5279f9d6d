import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { EgressArrival, NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { BucketMap } from '../../../lib/sharing/bucket-map.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { cases } from '../../../test/properties/runs.ts';
import { mapLines } from '../../render/nft-text.ts';
import type { VerdictMap } from '../../render/verdict-map.ts';
import { ArrivalRenderer, type RenderedArrivals } from './arrivals.ts';
import { netstateRenderer, toNetstate } from './netstate.ts';

const HOST = { group: 10, underlayMtu: 1500 };
const ALL = { first: 0n, last: (1n << 32n) - 1n };
const LISTS: readonly EgressArrival['takes'][] = [
  [],
  [{ range: ALL, take: 1 }],
  [{ range: ALL, take: 2 }],
  [
    { range: { first: 0n, last: 9n }, take: 1 },
    { range: { first: 10n, last: 99n }, take: 2 },
  ],
  [{ range: { first: 7n, last: 7n }, take: 3 }],
];

/** The end of a node, in one of several forms. */
function end(node: number, form: number): TunnelEnd {
  const networks = [[`10.${node}.0.0/16`], [`10.${node}.0.0/24`], undefined][form % 3];
  return {
    node: `node-${node}`,
    address: `192.0.2.${node}`,
    mac: `0e:00:00:00:0${form % 2}:0${node}`,
    ...(networks && { networks }),
  };
}

const address = fc.tuple(fc.nat(2), fc.nat(1), fc.nat(3)).map(([a, b, c]) => `10.${a}.${b}.${c + 1}`);
const SUBNETS: readonly NodeEgress['subnets'][] = [
  [],
  [{ family: 4, range: { first: 0x0a010000n, last: 0x0a0100ffn }, class: 'c' }],
];

const state = fc
  .record({
    pods: fc.dictionary(address, fc.record({ node: fc.nat(2), takes: fc.nat(LISTS.length - 1) }), {
      maxKeys: 12,
    }),
    peers: fc.dictionary(
      fc.nat(2).map((node) => String(node)),
      fc.nat(5),
    ),
    own: fc.uniqueArray(address, { maxLength: 3 }),
    /** By destination, with the node. */
    former: fc.dictionary(
      fc.oneof(
        address.map((one) => `${one}/32`),
        fc.constant('10.1.0.0/24'),
      ),
      fc.nat(2),
      {
        maxKeys: 3,
      },
    ),
    subnets: fc.constantFrom(...SUBNETS),
  })
  .map(({ pods, peers, own, former, subnets }) => ({
    sources: new Map(own.map((one) => [one, null] as const)),
    answers: new Map(Object.entries(former).map(([to, node]) => [to, end(node, 0)] as const)),
    subnets,
    pods: new Map(
      Object.entries(pods).map(([address, { node, takes }]): [string, EgressArrival] => [
        address,
        { node: `node-${node}`, takes: LISTS[takes] ?? [] },
      ]),
    ),
    peers: new Map(
      Object.entries(peers).map(([node, form]) => [`node-${node}`, end(Number(node), form)] as const),
    ),
  }));

const text = ({ chains, maps }: RenderedArrivals): unknown => [chains, maps.map(elements)];

function elements(map: VerdictMap): unknown {
  return [map.name, mapLines(map, true)];
}

/** Routes of answers: each destination, with the number of the node that it leads to. */
function ways(egress: NodeEgress): string[] {
  const { routes, nexthops } = toNetstate(egress, HOST);
  return routes.map(({ destination, nexthop }) => {
    const hop = nexthops.find(({ id }) => id === nexthop);
    return `${destination} ${hop === undefined || !('via' in hop) ? 'here' : `by ${hop.via.slice(-1)}`}`;
  });
}

describe('what a gateway takes, state after state', () => {
  it('is what the last state alone gives: rules, routes and next hops', () => {
    fc.assert(
      fc.property(fc.array(state, { minLength: 2, maxLength: 8 }), (states) => {
        const renderer = new ArrivalRenderer();
        const netstateOf = netstateRenderer();
        let arrivals = BucketMap.of<EgressArrival>(new Map(), 4);
        for (const { pods, peers, ...rest } of states) {
          arrivals = arrivals.with(
            pods,
            [...arrivals.keys()].filter((address) => !pods.has(address)),
          );
          const node = fakeNodeEgress({ arrivals, peers, ...rest, tunnel: end(9, 0) });
          assert.deepEqual(text(renderer.render(node)), text(new ArrivalRenderer().render(node)));
          assert.deepEqual(netstateOf(node, HOST), toNetstate(node, HOST));
        }
      }),
      { numRuns: cases(500) },
    );
  });

  it('is the same object where nothing changed', () => {
    const renderer = new ArrivalRenderer();
    const peers = new Map([['node-1', end(1, 0)]]);
    const arrivals = new Map([['10.1.0.1', { node: 'node-1', takes: LISTS[1] ?? [] }]]);
    const [first, again] = [1, 2].map(() => renderer.render({ arrivals: new Map(arrivals), peers }));
    assert.equal(first?.maps[0], again?.maps[0]);
    const { maps } = renderer.render({ arrivals: new Map(), peers });
    assert.equal(maps[0]?.verdicts.length, 0, 'forgets verdicts that nothing leads to');
  });

  it('routes answers by networks of pods, and by single addresses outside of them', () => {
    const peers = new Map([1, 2].map((node) => [`node-${node}`, end(node, 1)]));
    const at = (address: string, node: string): [string, EgressArrival] => [
      address,
      { node, takes: LISTS[1] ?? [] },
    ];
    const arrivals = new Map([
      at('10.1.0.1', 'node-1'),
      at('10.1.0.2', 'node-1'),
      at('10.1.7.1', 'node-1'),
      at('10.1.0.3', 'node-2'),
    ]);
    const egress = fakeNodeEgress({ arrivals, peers, tunnel: end(9, 0) });
    assert.deepEqual(ways(egress), ['10.1.0.0/24 by 1', '10.1.0.3/32 by 2', '10.1.7.1/32 by 1']);
  });

  it('never leads answers to a pod of this node into the tunnel', () => {
    const peers = new Map([['node-1', end(1, 1)]]);
    const arrivals = new Map([
      ['10.1.0.1', { node: 'node-1', takes: LISTS[1] ?? [] }],
      // The objects still have the pod that had it before.
      ['10.7.0.1', { node: 'node-1', takes: LISTS[1] ?? [] }],
    ]);
    const sources = new Map(['10.1.0.9', '10.7.0.1', '10.7.0.2', '10.7.0.3'].map((one) => [one, 'c']));
    const answers = new Map(['10.7.0.2/32'].map((one) => [one, end(1, 1)]));
    const egress = fakeNodeEgress({ arrivals, peers, sources, answers, tunnel: end(9, 0) });
    const own = ['10.1.0.9/32 here', '10.7.0.1/32 here', '10.7.0.2/32 here'];
    assert.deepEqual(ways(egress), ['10.1.0.0/24 by 1', ...own]);
    const none = { ...egress, arrivals: new Map(), answers: new Map([['10.1.0.0/24', end(1, 1)]]) };
    assert.deepEqual(ways(none), ['10.1.0.0/24 by 1', '10.1.0.9/32 here']);
  });

  it('uses no network in which this node may have pods that no object names', () => {
    const peers = new Map([['node-1', end(1, 1)]]);
    const arrivals = new Map([['10.1.0.1', { node: 'node-1', takes: LISTS[1] ?? [] }]]);
    const answers = new Map(['10.1.0.0/24', '10.1.0.2/32'].map((one) => [one, end(1, 1)]));
    const egress = fakeNodeEgress({ arrivals, peers, answers, tunnel: end(9, 0), subnets: SUBNETS[1] ?? [] });
    assert.deepEqual(ways(egress), ['10.1.0.1/32 by 1', '10.1.0.2/32 by 1']);
  });
});
