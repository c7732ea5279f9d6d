/**
 * The rows of `nodewall diff` are true of the kernel: what is in a row has one verdict while the
 * agent enforces the old manifests and another with the new ones; all other flows have one verdict.
 */
import assert from 'node:assert/strict';
import type { Row } from '../../apis/difference/row.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterDifference } from '../../controller/difference/cluster-difference.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { seededRandom } from '../../perf/generate/random.ts';
import { toClusterObjects, toConfig } from '../properties/pipeline.ts';
import { isInRow, wholeFlow } from '../properties/whole-flow.ts';
import { type PartialFlow, toCompleteFlow } from './complete-flow.ts';
import { dataplaneSuite, NFTABLES } from './dataplane.ts';
import { draw, PLAN } from './drawn.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow, type Verdict } from './flow.ts';
import { NODE_NAME } from './manifests.ts';
import { observe } from './verdicts.ts';

/** Pairs of seeds of drawn.ts: two states of the same node, in NodePort policies too. */
const PAIRS: readonly (readonly [number, number])[] = [
  [1001, 1002],
  [1004, 1003],
  [1008, 1012],
  // difference.long.ts sets how many more; every fourth seed has NodePort policies.
  ...Array.from({ length: Number(process.env.NODEWALL_PAIRS ?? 0) }, (_, i) => {
    return [2000 + 2 * i, 2001 + 2 * i + 2 * (i % 3)] as const;
  }),
];
/** Protocols that packets of the topology can have. */
const PROTOCOLS = ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp', 47, 50, 89, 112, 255, 4] as const;

dataplaneSuite('exact difference: the kernel agrees', NFTABLES, () => {
  let node: EnforcedNode;
  const seen = new Map<string, number>();
  const count = (key: string) => seen.set(key, (seen.get(key) ?? 0) + 1);
  before(async () => {
    node = await createEnforcedNode(PLAN);
  });
  after(() => node?.close());

  for (const [old, now] of PAIRS) {
    it(`seeds ${old} and ${now}`, async () => {
      const drawn = [old, now].map((seed) => draw(seed, { flows: 200, names: false }));
      const config = drawn[0]?.scenario.config ?? {};
      const random = seededRandom(`${old} ${now}`);
      const states = drawn.map(({ scenario }) => scenario.objects);
      const rows = rowsOf(states, config);
      const isIn = (flow: Flow) => {
        const whole = wholeFlow(flow as Parameters<typeof wholeFlow>[0], random, config, [4, 6]);
        return (row: Row): boolean => whole !== null && isInRow(row, whole);
      };
      const ofRows = rows.flatMap((row) => {
        const flow = [...candidates(row)].find((one) => isIn(one)(row));
        count(flow === undefined ? `no packet: ${hindrance(row)}` : 'a packet');
        if (flow === undefined) assert.notEqual(hindrance(row), null, `no packet for ${JSON.stringify(row)}`);
        return flow ?? [];
      });
      const flows = [...ofRows, ...drawn.flatMap((one) => one.flows)].filter(({ src, dst }) => {
        return [src, dst].some((end) => !OWN.has(end));
      });
      const options = await node.configure({ ...config });
      const observed: Verdict[][] = [];
      for (const objects of states) {
        await node.write('node.json', objects);
        await node.again('--strict', ...options);
        observed.push(await observe(node.topology, flows));
      }
      const wrong = flows.filter((flow, i) => {
        const [before, after] = observed.map((verdicts) => verdicts[i]);
        const row = rows.find(isIn(flow));
        if (row === undefined) {
          count('same');
          return before !== after;
        }
        count(`${row.direction} ${row.traffic}`);
        count(`${row.before} to ${row.after}`);
        return before !== asObserved(flow, row.before) || after !== asObserved(flow, row.after);
      });
      const shown = wrong.slice(0, 5).map((flow) => {
        const verdicts = observed.map((list) => list[flows.indexOf(flow)]);
        return `${JSON.stringify(flow)}: ${verdicts.join(' to ')}; row ${JSON.stringify(rows.find(isIn(flow)))}`;
      });
      assert.equal(wrong.length, 0, `${wrong.length} of ${flows.length} flows:\n${shown.join('\n')}`);
    });
  }

  it('has seen every kind of difference', () => {
    process.stdout.write(`${[...seen].map(([key, times]) => `${times} ${key}`).join('; ')}\n`);
    for (const key of EXPECTED) assert.ok((seen.get(key) ?? 0) >= 5, `${key}: ${JSON.stringify([...seen])}`);
  });
});

const EXPECTED = [
  'same',
  'ingress Host',
  'ingress NodePort',
  'egress Host',
  'Allow to Drop',
  'Drop to Allow',
  'Allow to Reject',
  'Reject to Allow',
];

const OWN = new Set(PLAN.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]));

function rowsOf(states: readonly (readonly object[])[], config: Parameters<typeof toConfig>[0]) {
  const [before, after] = states.map((objects) => compile(toClusterObjects(objects)));
  if (before === undefined || after === undefined) throw new Error('nothing compiled');
  const { groups } = clusterDifference(before, after, { config: toConfig(config), node: NODE_NAME });
  return groups.flatMap(({ changes }) => changes);
}

/** The clients whose packets, by address and interface, may be in a row. */
function clientsOf({ peers, interfaceGroups }: Row): { peer: string; group: number }[] {
  const isGroup = (group: number): boolean =>
    interfaceGroups === null || interfaceGroups.some(([first, last]) => first <= group && group <= last);
  return PLAN.clientAddresses
    .filter(({ group }) => isGroup(group))
    .flatMap(({ v4, v6, group }) => [v4, v6].map((peer) => ({ peer, group })))
    .filter(({ peer }) => peers === null || peers.some((range) => isWithin(range, peer)));
}

function isWithin(range: string, text: string): boolean {
  const [first, last, address] = [...range.split('-'), text].map((one) => parseAddress(one));
  if (first == null || last == null || address == null) throw new Error(`not a range: ${range}`);
  return first.family === address.family && first.value <= address.value && address.value <= last.value;
}

/** Why no packet of the topology is in a row; null: one ought to be. */
function hindrance(row: Row): string | null {
  const { direction, traffic, protocols, igmp } = row;
  const has = (...numbers: readonly number[]): boolean =>
    protocols === null || protocols.some(([first, last]) => numbers.some((n) => first <= n && n <= last));
  const clients = clientsOf(row);
  const isIgmpAlone = protocols?.length === 1 && protocols[0]?.[0] === 2 && protocols[0][1] === 2;
  if (direction === 'egress' && isIgmpAlone) return 'IGMP that leaves goes to a group, by one interface';
  if (clients.length === 0) return 'no client with such an address and interface group';
  if (traffic === 'NodePort' && !has(6, 17, 132)) return 'NAT is for ports';
  const families = new Set(clients.map(({ peer }) => (peer.includes(':') ? 6 : 4)));
  const sendable = [6, 17, 132, 47, 50, 89, 112, 255, 4, ...(families.has(4) ? [1, 2] : []), 58];
  if (!has(...sendable.filter((n) => n !== 58 || families.has(6)))) return 'no such packet is sent here';
  if (isIgmpAlone && igmp?.groups !== null && !groupsOf(row).some((group) => group !== undefined))
    return 'no such multicast group';
  return null;
}

/** Destinations of IGMP in a row; undefined: the Node itself. */
function groupsOf({ igmp }: Row): (string | undefined)[] {
  const groups = PLAN.multicastGroups.filter(
    (group) => igmp?.groups == null || igmp.groups.some((range) => isWithin(range, group)),
  );
  return igmp?.groups == null ? [undefined, ...groups] : groups;
}

/** Packets of the topology that may be in a row. */
function* candidates(row: Row): Iterable<Flow> {
  const { direction, traffic, ports, sourcePorts, icmp, igmp } = row;
  const endsOf = (ranges: readonly (readonly [number, number])[] | null | undefined, other: number) =>
    ranges == null ? [other] : ranges.slice(0, 3).flat();
  for (const { peer } of clientsOf(row)) {
    for (const protocol of PROTOCOLS) {
      for (const dst of protocol === 'igmp' && direction === 'ingress' ? groupsOf(row) : [undefined]) {
        for (const [i, dstPort] of endsOf(ports, 8080).entries()) {
          const flow: PartialFlow = {
            ...{ direction, traffic, protocol, dstPort },
            ...(direction === 'ingress'
              ? { src: peer, ...(dst === undefined ? {} : { dst }) }
              : { dst: peer }),
            srcPort: sourcePorts?.[0]?.[i % 2] ?? 33_000,
            icmpType: icmp?.types[0]?.[i % 2] ?? (protocol === 'icmp' ? 8 : 128),
            icmpCode: icmp?.codes?.[0]?.[0] ?? 0,
            igmpType: igmp?.types?.[0]?.[0] ?? 0x16,
          };
          const complete = toCompleteFlow(flow, PLAN, 0);
          if (complete !== undefined) yield complete;
        }
      }
    }
  }
}
