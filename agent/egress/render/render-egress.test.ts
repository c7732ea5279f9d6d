import assert from 'node:assert/strict';
import fc from 'fast-check';
import { emptyNodeState } from '../../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import type { EgressClass, EgressOutcome, EgressTake, NodeEgress } from '../../../apis/egress/node-egress.ts';
import { formatAddress, parseAddress } from '../../../lib/net/address.ts';
import type { Interval } from '../../../lib/net/interval.ts';
import { hasAddress, toMemberSet } from '../../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { cases } from '../../../test/properties/runs.ts';
import type { Packet } from '../../../test/tracer/packet.ts';
import { nextOf, type Path, pathTracer } from '../../../test/tracer/path.ts';
import { tracer } from '../../../test/tracer/tracer.ts';
import { render, renderer } from '../../render/render.ts';
import { buckets } from './classes.ts';
import { slotMark, takeMark } from './marks.ts';
import { toNetstate } from './netstate.ts';
import { linkLocal } from './tunnel.ts';

const SELF = 'here';
const UPLINK = { name: 'eth0', group: 0 } as const;
const PODS = { name: 'eth0', group: 8 } as const;
const TUNNEL = { name: 'eth0', group: 10 } as const;
const value = (text: string): bigint => parseAddress(text)?.value ?? 0n;
const NODE_ADDRESS = { 4: value('192.0.2.1'), 6: value('2001:db8::1') } as const;
/** Sources and destinations are the last byte of these networks. */
const BASE = { 4: value('10.0.0.0'), 6: value('fd00::') } as const;
const OUTSIDE = { 4: value('203.0.113.0'), 6: value('2001:db8:f::') } as const;
const text = (family: 4 | 6, at: bigint): string => formatAddress({ family, value: at });
const end = (node: string, last: number) => ({
  node,
  address: `192.0.2.${last}`,
  mac: `0e:00:00:00:00:0${last}`,
});
const PEERS = ['a', 'b'].map((node, i) => end(node, i + 2));

const SMALL = { min: 0, max: 7 } as const;
const family = fc.constantFrom<4 | 6>(4, 6);

const action: fc.Arbitrary<EgressOutcome['action']> = fc.oneof(
  fc.constantFrom({ kind: 'pass' } as const, { kind: 'direct' } as const),
  fc.uniqueArray(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 }).map((slots) => {
    return { kind: 'slots', slots } as const;
  }),
  fc.integer({ min: 1, max: 2 }).map((take) => ({ kind: 'take', take }) as const),
  fc
    .constantFrom('policy', 'no-gateway', 'not-ready', 'no-family', 'no-address' as const)
    .map((reason) => ({ kind: 'drop', reason }) as const),
);

/** Disjoint ranges of the last byte, each with a choice. */
function ranges<T>(base: bigint, choice: fc.Arbitrary<T>) {
  return fc
    .tuple(
      fc.uniqueArray(fc.integer(SMALL), { minLength: 2, maxLength: 4 }),
      fc.array(choice, { minLength: 4, maxLength: 4 }),
    )
    .map(([bounds, choices]) => {
      const sorted = bounds.toSorted((a, b) => a - b);
      const found: { range: Interval; choice: T }[] = [];
      for (let i = 0; i + 1 < sorted.length; i += 2) {
        const range = { first: base + BigInt(sorted[i] ?? 0), last: base + BigInt(sorted[i + 1] ?? 0) };
        found.push({ range, choice: choices[i] as T });
      }
      return found;
    });
}

const OUTCOMES = ['o1', 'o2', 'o3'] as const;
const ofClass = (id: string): fc.Arbitrary<EgressClass> =>
  fc.record({
    id: fc.constant(id),
    ipv4: ranges(OUTSIDE[4], fc.constantFrom(...OUTCOMES)).map(toOutcomes),
    ipv6: ranges(OUTSIDE[6], fc.constantFrom(...OUTCOMES)).map(toOutcomes),
  });
function toOutcomes(list: readonly { range: Interval; choice: string }[]) {
  return list.map(({ range, choice: outcome }) => ({ range, outcome }));
}

const address = (byte: number, of: 4 | 6): string => text(of, OUTSIDE[of] + 100n + BigInt(byte));
const take: fc.Arbitrary<EgressTake> = fc.oneof(
  fc.constant({ kind: 'node', interface: null } as const),
  fc
    .tuple(
      fc.uniqueArray(fc.integer(SMALL), { maxLength: 3 }),
      fc.uniqueArray(fc.integer(SMALL), { maxLength: 3 }),
    )
    .map(([v4, v6]) => {
      const ipv4 = v4.map((byte) => address(byte, 4));
      return { kind: 'floating', ipv4, ipv6: v6.map((byte) => address(byte, 6)) } as const;
    }),
);

const CLASSES = ['c1', 'c2'] as const;
const pods = (of: 4 | 6) =>
  fc.dictionary(fc.constantFrom('0', '1', '2', '3'), fc.constantFrom(null, ...CLASSES)).map((known) => {
    return Object.entries(known).map(([byte, id]) => [text(of, BASE[of] + BigInt(byte)), id] as const);
  });

const nodeEgress: fc.Arbitrary<NodeEgress> = fc
  .record({
    sources: fc.tuple(pods(4), pods(6)),
    subnets: fc.tuple(
      ranges(BASE[4] + 4n, fc.constantFrom(...CLASSES)),
      ranges(BASE[6] + 4n, fc.constantFrom(...CLASSES)),
    ),
    classes: fc.tuple(ofClass('c1'), ofClass('c2')),
    actions: fc.tuple(action, action, action),
    ownSlots: fc.uniqueArray(fc.integer({ min: 1, max: 3 })),
    takes: fc.tuple(take, take),
    unknownPods: fc.constantFrom<'Hold' | 'Pass'>('Hold', 'Pass'),
    inside: fc.uniqueArray(fc.integer(SMALL), { maxLength: 1 }),
    arrivals: fc.dictionary(
      fc.constantFrom('20', '21', '22'),
      fc.tuple(fc.constantFrom('a', 'b'), ranges(OUTSIDE[4], fc.constantFrom(1, 2))),
    ),
  })
  .map(({ sources, subnets, classes, actions, ownSlots, takes, unknownPods, inside, arrivals }) =>
    fakeNodeEgress({
      tunnel: end(SELF, 1),
      inside: toMemberSet(
        [],
        inside.flatMap((byte) => [text(4, OUTSIDE[4] + BigInt(byte)), text(6, OUTSIDE[6] + BigInt(byte))]),
      ),
      unknownPods,
      nodes: toMemberSet([], ['192.0.2.1', '192.0.2.2', '192.0.2.3']),
      sources: new Map(sources.flat()),
      subnets: ([4, 6] as const).flatMap((of, i) =>
        (subnets[i] ?? []).map(({ range, choice }) => ({ family: of, range, class: choice })),
      ),
      classes: new Map(classes.map((one) => [one.id, one])),
      outcomes: new Map(
        OUTCOMES.map((id, i) => [
          id,
          {
            id,
            policy: { kind: 'EgressPolicy', namespace: 'x', name: id, apiGroup: 'nodewall.io' },
            audited: [],
            action: actions[i] ?? { kind: 'pass' },
          },
        ]),
      ),
      slots: new Map(
        [1, 2, 3].map((number) => {
          const isOwn = ownSlots.includes(number);
          return [
            number,
            { number, node: isOwn ? SELF : (PEERS[number % 2]?.node ?? ''), take: isOwn ? 1 : 0 },
          ];
        }),
      ),
      peers: new Map(PEERS.map((peer) => [peer.node, peer])),
      arrivals: new Map(
        Object.entries(arrivals).map(([byte, [node, list]]) => [
          text(4, BASE[4] + BigInt(byte)),
          { node, takes: list.map(({ range, choice }) => ({ range, take: choice })) },
        ]),
      ),
      takes: new Map(takes.map((one, i) => [i + 1, one])),
    }),
  );

/**
 * How the kernel routes by the rendered network configuration: by mark into the tunnel, else out.
 */
function walker(egress: NodeEgress, tables = toNetstate(egress, { group: 10, underlayMtu: 1500 })) {
  const ruleset = render({ ...emptyNodeState(SELF), egress }, DEFAULT_CONFIG);
  return pathTracer(ruleset, ({ mark = 0, family: of, dst }) => {
    const rule = tables.rules.find(
      (one) => one.family === of && one.action === 'table' && (mark & one.mask) === one.mark,
    );
    const route =
      rule?.action === 'table' &&
      tables.routes.find(
        ({ family, table, destination }) =>
          family === of &&
          table === rule.table &&
          (destination.endsWith('/0') || destination.startsWith(`${text(of, dst)}/`)),
      );
    return route ? TUNNEL : { ...UPLINK, address: NODE_ADDRESS[of] };
  });
}

function packet(of: 4 | 6, source: number, destination: number, from: Packet['interface'] = PODS): Packet {
  return {
    direction: 'ingress',
    family: of,
    src: BASE[of] + BigInt(source),
    dst: OUTSIDE[of] + BigInt(destination),
    protocol: 6,
    srcPort: 1000,
    dstPort: 80,
    isSyn: true,
    interface: from,
    established: false,
    original: null,
    isForwarded: true,
  };
}

/** The action that NodeEgress has for a connection's first packet. */
function meaning(egress: NodeEgress, { family: of, src, dst }: Packet): EgressOutcome['action'] {
  if (hasAddress(egress.inside, text(of, dst))) return { kind: 'pass' };
  const has = ({ first, last }: Interval, what: bigint): boolean => first <= what && what <= last;
  const known = egress.sources.get(text(of, src));
  const subnet = egress.subnets.find((one) => one.family === of && has(one.range, src));
  const id = known === undefined ? subnet?.class : known;
  if (id === undefined && egress.unknownPods === 'Hold') return { kind: 'drop', reason: 'unknown-pod' };
  const list = egress.classes.get(id ?? '')?.[of === 4 ? 'ipv4' : 'ipv6'] ?? [];
  const outcome = list.find(({ range }) => has(range, dst))?.outcome;
  return egress.outcomes.get(outcome ?? '')?.action ?? { kind: 'pass' };
}

function assertTaken(egress: NodeEgress, number: number, path: Path, first: Packet): void {
  const how = egress.takes.get(number);
  const addresses =
    how?.kind === 'floating'
      ? how[first.family === 4 ? 'ipv4' : 'ipv6'].map(value)
      : [NODE_ADDRESS[first.family]];
  if (addresses.length === 0) {
    assert.equal(path.end?.chain, 'egress-drop-no-address');
    return;
  }
  assert.deepEqual([path.verdict, path.packet.output?.group], ['Allow', 0]);
  assert.ok(addresses.includes(path.packet.src), `${path.packet.src}`);
  assert.equal(path.packet.ctMark, takeMark(number));
}

function assertMeant(egress: NodeEgress, action: EgressOutcome['action'], path: Path, first: Packet): void {
  switch (action.kind) {
    case 'pass':
    case 'direct':
      assert.deepEqual(
        [path.verdict, path.packet.src, path.packet.ctMark ?? 0, path.packet.output?.group],
        ['Allow', first.src, 0, 0],
      );
      return;
    case 'take':
      assertTaken(egress, action.take, path, first);
      return;
    case 'slots': {
      const own = [...egress.slots.values()].filter(
        ({ number, node }) => action.slots.includes(number) && node === SELF,
      );
      const slot = action.slots.find((number) => path.packet.ctMark === slotMark(number));
      if (slot === undefined && own.length > 0) {
        assertTaken(egress, 1, path, first);
        return;
      }
      assert.ok(slot !== undefined, `${path.packet.ctMark} ${path.end?.chain}`);
      // The mark is not on the packet any more: the outer one would have it too.
      assert.deepEqual(
        [path.verdict, path.packet.src, path.packet.output?.group, (path.packet.mark ?? 0) & 0x7f000000],
        ['Allow', first.src, 10, 0],
      );
      return;
    }
    case 'drop': {
      if (action.reason === 'policy') {
        assert.match(path.end?.chain ?? '', /^egress-policy-/);
        return;
      }
      assert.equal(path.end?.chain, `egress-drop-${action.reason}`);
      assert.equal(path.verdict, action.reason === 'no-family' ? 'Reject' : 'Drop');
    }
  }
}

describe('rendered egress', () => {
  const some = fc.tuple(family, fc.integer({ min: 0, max: 7 }), fc.integer(SMALL));

  it('does with each first packet of a pod what NodeEgress says', () => {
    fc.assert(
      fc.property(nodeEgress, fc.array(some, { minLength: 20, maxLength: 20 }), (egress, flows) => {
        const walk = walker(egress);
        for (const [of, source, destination] of flows) {
          const first = packet(of, source, destination);
          assertMeant(egress, meaning(egress, first), walk(first), first);
        }
      }),
      { numRuns: cases(200) },
    );
  });

  it('lets a connection keep its way, whatever policies say later', () => {
    const ways = { tunnel: 0, taken: 0, own: 0 };
    fc.assert(
      fc.property(
        nodeEgress,
        nodeEgress,
        fc.array(some, { minLength: 10, maxLength: 10 }),
        (before, other, flows) => {
          const walk = walker(before);
          const { slots, takes } = before;
          const later = walker({ ...other, slots, takes });
          for (const [of, source, destination] of flows) {
            const first = packet(of, source, destination);
            const path = walk(first);
            if (path.verdict !== 'Allow') continue;
            if (path.packet.output?.group === TUNNEL.group) ways.tunnel++;
            else ways[path.packet.src === first.src ? 'own' : 'taken']++;
            const next = later(nextOf(path, first));
            assert.deepEqual(
              [next.verdict, next.packet.src, next.packet.output?.group],
              ['Allow', path.packet.src, path.packet.output?.group],
            );
          }
        },
      ),
      { numRuns: cases(200) },
    );
    assert.ok(
      Object.values(ways).every((count) => count > 0),
      JSON.stringify(ways),
    );
  });

  it('lets in from the tunnel only pairs of pod and node that it serves', () => {
    const arriving = fc.tuple(fc.constantFrom(20, 21, 22, 23), fc.constantFrom(...PEERS), fc.integer(SMALL));
    fc.assert(
      fc.property(nodeEgress, fc.array(arriving, { minLength: 20, maxLength: 20 }), (egress, flows) => {
        const walk = walker(egress);
        for (const [source, peer, destination] of flows) {
          const first = { ...packet(4, source, destination, TUNNEL), sourceMac: peer.mac };
          const arrival = egress.arrivals.get(text(4, first.src));
          const found =
            arrival?.node === peer.node && !hasAddress(egress.inside, text(4, first.dst))
              ? arrival.takes.find(({ range }) => range.first <= first.dst && first.dst <= range.last)
              : undefined;
          const path = walk(first);
          if (found !== undefined) assertTaken(egress, found.take, path, first);
          else assert.equal(path.end?.chain, 'egress-drop-unknown-pod');
        }
      }),
      { numRuns: cases(200) },
    );
  });

  it('lets nothing from the tunnel into pods, whatever is inside', () => {
    const arrivals = new Map([
      [
        text(4, BASE[4] + 20n),
        { node: 'a', takes: [{ range: { first: 0n, last: (1n << 32n) - 1n }, take: 1 }] },
      ],
    ]);
    const egress = fakeNodeEgress({
      tunnel: end(SELF, 9),
      peers: new Map(PEERS.map((peer) => [peer.node, peer])),
      arrivals,
      takes: new Map([[1, { kind: 'node', interface: null }]]),
    });
    const ruleset = render({ ...emptyNodeState(SELF), egress }, DEFAULT_CONFIG);
    const first = { ...packet(4, 20, 1, TUNNEL), sourceMac: PEERS[0]?.mac ?? '' };
    const endBy = (output: Packet['output']) => pathTracer(ruleset, () => output)(first).end;
    assert.equal(endBy({ ...UPLINK, address: NODE_ADDRESS[4] }), null);
    const { hook, chain } = endBy(PODS) ?? {};
    assert.deepEqual([hook, chain], ['forward', 'egress-drop-unknown-pod']);
  });

  it('lets in outer packets of known ends alone, each with its own MAC', () => {
    for (const family of [4, 6] as const) {
      const ends = PEERS.map((peer, i) => ({ ...peer, address: text(family, BASE[family] + BigInt(i + 1)) }));
      const peers = new Map(ends.map((peer) => [peer.node, peer]));
      const former = { ...end('former', 8), address: text(family, BASE[family] + 8n) };
      const answers = new Map([['10.7.0.1/32', former]]);
      const egress = fakeNodeEgress({ tunnel: end(SELF, 9), peers, answers });
      const walk = tracer(render({ ...emptyNodeState(SELF), egress }, DEFAULT_CONFIG));
      const isLetIn = (source: number, innerMac: string): boolean => {
        const outer = { ...packet(family, source, 0, UPLINK), protocol: 17, dstPort: 7790, innerMac };
        return walk({ ...outer, isForwarded: false }).verdict === 'Allow';
      };
      const [a = former, b = former] = ends;
      assert.deepEqual([isLetIn(1, a.mac), isLetIn(2, b.mac), isLetIn(8, former.mac)], [true, true, true]);
      assert.deepEqual([isLetIn(1, b.mac), isLetIn(3, a.mac), isLetIn(8, a.mac)], [false, false, false]);
    }
  });

  it("lets no process send to the tunnel's ports but by the tunnel, in use or not", () => {
    const used = fakeNodeEgress({ peers: new Map(PEERS.map((peer) => [peer.node, peer])) });
    for (const egress of [used, fakeNodeEgress()]) {
      const walk = tracer(render({ ...emptyNodeState(SELF), egress }, DEFAULT_CONFIG));
      const sent = (changes: Partial<Packet>) =>
        walk({
          ...packet(4, 1, 1, UPLINK),
          direction: 'egress',
          isForwarded: false,
          protocol: 17,
          ...changes,
        }).verdict;
      for (const family of [4, 6] as const) {
        const { src, dst } = packet(family, 1, 1);
        for (const dstPort of [7790, 7791]) {
          assert.equal(sent({ family, src, dst, dstPort, hasSocket: true }), 'Drop');
          assert.equal(sent({ family, src, dst, dstPort }), 'Allow');
        }
        assert.equal(sent({ family, src, dst, dstPort: 7789, hasSocket: true }), 'Allow');
      }
      const [peer] = PEERS;
      const inner = {
        family: 6 as const,
        src: value('fe80::9'),
        dst: value(linkLocal(peer?.mac ?? '')),
        hasSocket: true,
        interface: TUNNEL,
        dstPort: 7791,
      } as const;
      // From the agent's own port.
      const isUsed = egress === used;
      assert.equal(sent({ ...inner, srcPort: 7791 }), isUsed ? 'Allow' : 'Drop');
      assert.equal(sent({ ...inner, srcPort: 7792 }), 'Drop');
      const outer = { dstPort: 7790, hasSocket: true, mark: 0x40000000 };
      assert.equal(sent(outer), isUsed ? 'Allow' : 'Drop');
    }
  });

  it('lets in echoes of known ends of the tunnel alone, and does not track them', () => {
    const walk = walker(fakeNodeEgress({ peers: new Map(PEERS.map((peer) => [peer.node, peer])) }));
    const own = value('fe80::c00:ff:fe00:9');
    for (const type of [128, 129, 135]) {
      for (const [from, isKnown] of [
        ['fe80::c00:ff:fe00:2', true],
        ['fe80::c00:ff:fe00:7', false],
      ] as const) {
        const { srcPort: _, dstPort: __, ...rest } = packet(6, 0, 0, TUNNEL);
        const echo = { ...rest, protocol: 58, type, code: 0, isSyn: false, src: value(from), dst: own };
        const path = walk(echo);
        const isLetIn = isKnown && type !== 135;
        assert.equal(path.end?.chain === 'egress-drop-unknown-pod', !isLetIn, `${from} ${type}`);
        assert.equal(path.packet.isUntracked === true, isLetIn, `${from} ${type}`);
      }
    }
  });

  it('ends the connections of a slot whose gateway is lost, and no others', () => {
    const slots = new Map([1, 2].map((number) => [number, { number, node: 'a', take: 0 }]));
    const peers = new Map(PEERS.map((peer) => [peer.node, peer]));
    const walk = walker(fakeNodeEgress({ tunnel: end(SELF, 9), slots, peers, ended: new Set([1]) }));
    const open = { ...packet(4, 1, 1), established: true, isSyn: false };
    const reset = walk({ ...open, ctMark: slotMark(1) });
    assert.deepEqual([reset.verdict, reset.end?.chain], ['Reject', 'egress-slot-1-mark']);
    for (const changes of [{ protocol: 17 }, { established: false }]) {
      const path = walk({ ...open, ...changes, ctMark: slotMark(1) });
      assert.deepEqual([path.verdict, path.end?.chain], ['Drop', 'egress-drop-not-ready']);
    }
    assert.equal(walk({ ...open, ctMark: slotMark(2) }).verdict, 'Allow');
  });

  it('drops what has a slot and does not go out by the tunnel', () => {
    fc.assert(
      fc.property(nodeEgress, fc.array(some, { minLength: 20, maxLength: 20 }), (egress, flows) => {
        // No rule, route or device is there.
        const walk = walker(egress, toNetstate(null, { group: 10, underlayMtu: 1500 }));
        for (const [of, source, destination] of flows) {
          const path = walk(packet(of, source, destination));
          const mark = path.packet.ctMark ?? 0;
          if (mark !== 0 && (mark & 0x40000000) === 0) assert.equal(path.end?.chain, 'egress-drop-no-route');
        }
      }),
      { numRuns: 50 },
    );
  });

  it("drops what a pod sends to the tunnel's port of a Node, also where the tunnel is not in use", () => {
    const walk = walker(
      fakeNodeEgress({ nodes: toMemberSet([], [text(4, OUTSIDE[4]), text(6, OUTSIDE[6])]) }),
    );
    const sent = (of: 4 | 6, to: number, dstPort: number, protocol = 17) => {
      const path = walk({ ...packet(of, 1, to), protocol, dstPort });
      return [path.verdict, path.end?.comment];
    };
    for (const family of [4, 6] as const) {
      assert.deepEqual(sent(family, 0, 7790), ['Drop', 'the tunnel is for Nodes only']);
      for (const [to, port, protocol] of [
        [1, 7790, 17],
        [0, 7789, 17],
        [0, 7790, 6],
      ] as const)
        assert.equal(sent(family, to, port, protocol)[0], 'Allow');
    }
  });

  it('changes elements only for another pod, and makes no other chain', () => {
    const outcome: EgressOutcome = { id: 'o', policy: null, audited: [], action: { kind: 'direct' } };
    const all = { first: 0n, last: 255n };
    const one: EgressClass = { id: 'c', ipv4: [{ range: all, outcome: 'o' }], ipv6: [] };
    const parts = { classes: new Map([['c', one]]), outcomes: new Map([['o', outcome]]) };
    const toRuleset = renderer(DEFAULT_CONFIG);
    const [before, after] = [['10.0.0.1'], ['10.0.0.1', '10.0.0.2']].map((sources) =>
      toRuleset({
        ...emptyNodeState(SELF),
        egress: fakeNodeEgress({ ...parts, sources: new Map(sources.map((source) => [source, 'c'])) }),
      }),
    );
    assert.deepEqual(
      [...(after?.chains.values() ?? [])].filter((chain) => before?.chains.get(chain.name) !== chain),
      [],
    );
    const maps = [...(after?.maps.values() ?? [])].filter((map) => before?.maps.get(map.name) !== map);
    assert.deepEqual(
      maps.map(({ name }) => name),
      ['egress-sources-v4'],
    );
    assert.deepEqual(after?.sets, before?.sets);
  });

  it('spreads over slots, and moves only the buckets of a slot that goes', () => {
    const three = buckets([1, 2, 3]);
    for (const slot of [1, 2, 3]) assert.ok(three.filter((one) => one === slot).length > 25, `${three}`);
    const two = buckets([1, 3]);
    assert.deepEqual(
      three.map((slot, i) => (slot === 2 ? 2 : two[i])),
      three,
    );
  });
});
