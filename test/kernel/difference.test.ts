/**
 * The rows of `nodewall diff` are true of the kernel: what is in a row has one verdict while the
 * agent enforces the old manifests and another with the new ones; all other flows have one verdict.
 */

import assert from 'node:assert/strict';
import type { Row } from '../../apis/difference/row.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterDifference } from '../../controller/difference/cluster-difference.ts';
import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval, Ranges } from '../../lib/net/interval.ts';
import { seededRandom } from '../../perf/generate/random.ts';
import type { AddressPlan, ClientAddress } from '../netns/topology.ts';
import { toClusterObjects, toConfig } from '../properties/pipeline.ts';
import { isInRow, wholeFlow } from '../properties/whole-flow.ts';
import { dataplaneSuite, NFTABLES } from './dataplane.ts';
import { draw, PLAN } from './drawn.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow, type PartialFlow, toCompleteFlow, type Verdict } from './flow.ts';
import { NODE_NAME } from './manifests.ts';
import { observe } from './verdicts.ts';

/** Protocols that packets of the topology can have. */
const PROTOCOLS = ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp', 47, 50, 89, 112, 255, 4] as const;

/** An address of another host, and the link group of the node's interface towards it. */
interface Place {
  readonly peer: string;
  readonly group: number;
}

/**
 * Why no packet can be in a row, wherever its client stands; null: one ought to be.
 *
 * @param plan where the clients stand
 */
function hindrance(row: Row, plan: AddressPlan): string | null {
  const { direction, traffic, protocols, igmp } = row;
  const has = (...numbers: readonly number[]): boolean =>
    protocols === null || protocols.some(([first, last]) => numbers.some((n) => first <= n && n <= last));
  const isIgmpAlone = protocols?.length === 1 && protocols[0]?.[0] === 2 && protocols[0][1] === 2;
  if (direction === 'egress' && isIgmpAlone) return 'IGMP that leaves goes to a group, by one interface';
  if (traffic === 'NodePort' && isIcmpAlone(row) && !typesOf([]).some((type) => isType(row, type)))
    return 'NAT takes no such ICMP';
  if (traffic === 'NodePort' && isIgmpAlone && igmp?.groups != null) return 'NAT takes no multicast';
  const places = placesIn(row, plan);
  const families = new Set([...places, ...otherPlaces(row, plan)].map(({ peer }) => familyOf(peer)));
  if (families.size === 0) return 'no address that a host can have';
  const sendable = [6, 17, 132, 47, 50, 89, 112, 255, 4, ...(families.has(4) ? [1, 2] : []), 58];
  if (!has(...sendable.filter((n) => n !== 58 || families.has(6)))) return 'no such packet is sent here';
  const { groups } = igmp ?? {};
  const isOfRow = (group: string): boolean => groups?.some((range) => isWithin(range, group)) === true;
  if (isIgmpAlone && groups != null && !plan.multicastGroups.some(isOfRow)) return 'no such multicast group';
  return null;
}

/** Packets of a topology that may be in a row. */
function* packetsFor(row: Row, plan: AddressPlan): Iterable<Flow> {
  const { direction, traffic, ports, sourcePorts, icmp, igmp } = row;
  for (const { peer } of placesIn(row, plan)) {
    for (const protocol of [...PROTOCOLS, ...numbersOf(row)]) {
      for (const dst of direction === 'ingress' ? destinationsOf(row, protocol, peer, plan) : [undefined]) {
        const isIcmp = protocol === 'icmp' || protocol === 'icmpv6';
        for (const [i, number] of (isIcmp
          ? typesOf(icmp?.types)
          : endsOf(ports ?? [[8080, 8080]])
        ).entries()) {
          const flow: PartialFlow = {
            direction,
            traffic,
            protocol,
            ...(direction === 'ingress'
              ? { src: peer, ...(dst === undefined ? {} : { dst }) }
              : { dst: peer }),
            srcPort: sourcePorts?.[0]?.[i % 2] ?? 33_000,
            ...(isIcmp ? { icmpType: number } : { dstPort: number }),
            icmpCode: icmp?.codes?.[0]?.[0] ?? 0,
            igmpType: igmp?.types?.[0]?.[0] ?? 0x16,
          };
          const complete = toCompleteFlow(flow, plan, 0);
          if (complete !== undefined) yield complete;
        }
      }
    }
  }
}

function endsOf(ranges: Ranges): number[] {
  return ranges.slice(0, 3).flat();
}

/** Those that open a connection first. */
function typesOf(ranges: Ranges = [[0, 255]]): number[] {
  return [8, 13, 15, 17, 128, ...endsOf(ranges)];
}

/**
 * Plans with clients for rows that the plan has none for: the first for as many as it can, since an
 * address has one place; and so on until each has its own.
 */
function plansFor(rows: readonly Row[], plan: AddressPlan): { plan: AddressPlan; rows: Row[] }[] {
  const layouts: { places: Map<string, number>; rows: Row[] }[] = [];
  for (const row of rows) {
    const [...places] = otherPlaces(row, plan);
    const isFree = ({ peer, group }: Place) =>
      layouts.find((one) => (one.places.get(peer) ?? group) === group);
    const found = places.map((place) => ({ place, layout: isFree(place) })).find(({ layout }) => layout);
    const place = found?.place ?? places[0];
    if (place === undefined) continue;
    const layout = found?.layout ?? { places: new Map<string, number>(), rows: [] };
    if (found === undefined) layouts.push(layout);
    layout.places.set(place.peer, place.group);
    layout.rows.push(row);
  }
  return layouts.map(({ places, rows: some }) => ({ plan: withPlaces(plan, places), rows: some }));
}

/** The clients of a plan whose packets, by address and interface, may be in a row. */
function placesIn(row: Row, plan: AddressPlan): Place[] {
  return plan.clientAddresses
    .flatMap(({ v4, v6, group }) => [v4, v6].map((peer) => ({ peer, group })))
    .filter((place) => isPlaceOf(row, place));
}

function isPlaceOf({ peers, interfaceGroups }: Row, { peer, group }: Place): boolean {
  const isGroup = interfaceGroups?.some(([first, last]) => first <= group && group <= last) ?? true;
  return isGroup && (peers?.some((range) => isWithin(range, peer)) ?? true);
}

/** Where a client may stand for a row: an address of each family, behind one interface group. */
function otherPlaces(row: Row, plan: AddressPlan): Place[] {
  const group = row.interfaceGroups === null ? 0 : row.interfaceGroups[0]?.[0];
  if (group === undefined) return [];
  const ranges = row.peers ?? ['198.51.100.0-198.51.100.255', '2001:db8:77::-2001:db8:77::ff'];
  const own = new Set(plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]));
  const found = new Map<Family, string>();
  for (const range of ranges) {
    const { family, first, last } = toInterval(range);
    if (found.has(family) || !isCarriedBy(row, family)) continue;
    const address = [first, ...USUAL[family], last]
      .filter((value) => first <= value && value <= last && isOfHost(family, value))
      .map((value) => formatAddress({ family, value }))
      .find((text) => !own.has(text));
    if (address !== undefined) found.set(family, address);
  }
  return [...found.values()].map((peer) => ({ peer, group }));
}

function isIcmpAlone({ protocols }: Row): boolean {
  return protocols?.every(([first, last]) => first === last && (first === 1 || first === 58)) ?? false;
}

function isType({ icmp }: Row, type: number): boolean {
  return icmp?.types.some(([first, last]) => first <= type && type <= last) ?? true;
}

/** Whether a protocol of the row is one of the family's. */
function isCarriedBy({ protocols }: Row, family: Family): boolean {
  const others: readonly number[] = family === 4 ? [58] : [1, 2];
  return protocols?.some(([first, last]) => others.length <= last - first || !others.includes(first)) ?? true;
}

const USUAL: Readonly<Record<Family, readonly bigint[]>> = {
  4: [1n << 24n, 128n << 24n],
  6: [0x2000n << 112n, 0xfc00n << 112n],
};

/** Neither reserved, loopback, link-local nor multicast (RFC 6890, RFC 4291). */
function isOfHost(family: Family, value: bigint): boolean {
  if (family === 6) {
    const head = value >> 112n;
    return head >= 0x2000n && head < 0xfe80n;
  }
  const head = value >> 24n;
  return head > 0n && head < 224n && head !== 127n && value >> 16n !== 0xa9fen;
}

/**
 * Each of these addresses stands behind its interface group; those of the plan leave their place.
 */
function withPlaces(plan: AddressPlan, places: ReadonlyMap<string, number>): AddressPlan {
  const first = 1 + Math.max(...plan.clientAddresses.map(({ client }) => client));
  const groups = [...new Set(places.values())];
  const stay = plan.clientAddresses.filter(({ v4, v6 }) => !places.has(v4) && !places.has(v6));
  // Each client keeps an address: its interface has a group, and pods are looked for there.
  const all = new Set(plan.clientAddresses.map(({ client, group }) => `${client} ${group}`));
  const kept = [...all].map((text, i): ClientAddress => {
    const [client = 0, group = 0] = text.split(' ').map(Number);
    return { v4: `10.250.0.${i + 1}`, v6: `fd90:250::${i + 1}`, client, group };
  });
  const visitors = [...places].map(([peer, group], i): ClientAddress => {
    const unused = { v4: `10.251.${i >> 8}.${i & 255}`, v6: `fd90:251::${i.toString(16)}` };
    const own = familyOf(peer) === 4 ? { v4: peer } : { v6: peer };
    return { ...unused, ...own, client: first + groups.indexOf(group), group };
  });
  return { ...plan, clientAddresses: [...kept, ...stay, ...visitors] };
}

function familyOf(address: string): Family {
  return address.includes(':') ? 6 : 4;
}

function toInterval(range: string): Interval & { readonly family: Family } {
  const [first, last] = range.split('-').map((one) => parseAddress(one));
  const end = last === undefined ? first : last;
  if (first == null || end == null) throw new Error(`not a range: ${range}`);
  return { family: first.family, first: first.value, last: end.value };
}

function isWithin(range: string, text: string): boolean {
  const { family, first, last } = toInterval(range);
  const address = parseAddress(text);
  return address?.family === family && first <= address.value && address.value <= last;
}

/** Destinations in a row; undefined: the Node itself. */
function destinationsOf(
  { igmp, destinations }: Row,
  protocol: string | number,
  peer: string,
  plan: AddressPlan,
): (string | undefined)[] {
  if (protocol !== 'igmp' && typeof protocol === 'string') return [undefined];
  const ranges = (protocol === 'igmp' ? igmp?.groups : destinations) ?? null;
  const isIn = (address: string): boolean => ranges?.some((range) => isWithin(range, address)) ?? true;
  const family = familyOf(peer);
  const groups = plan.multicastGroups.filter((group) => familyOf(group) === family && isIn(group));
  const own = plan.nodeAddresses[0]?.[family === 4 ? 'v4' : 'v6'] ?? '';
  return isIn(own) ? [undefined, ...groups] : groups;
}

/** Protocols that the row names one by one, but for those of PROTOCOLS. */
function numbersOf({ protocols }: Row): number[] {
  const single = (protocols ?? []).flatMap(([first, last]) => (first === last ? first : []));
  return single.filter((number) => ![1, 2, 6, 17, 58, 132].includes(number));
}

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
dataplaneSuite('exact difference: the kernel agrees', NFTABLES, () => {
  let node: EnforcedNode;
  const seen = new Map<string, number>();
  const count = (key: string) => seen.set(key, (seen.get(key) ?? 0) + 1);
  before(async () => {
    node = await createEnforcedNode(PLAN);
  });
  after(() => node?.close());

  for (const [old, now] of PAIRS) {
    it(`seeds ${old} and ${now}`, async function () {
      this.timeout(120_000);
      const drawn = [old, now].map((seed) => draw(seed, { flows: 200, names: false }));
      const config = drawn[0]?.scenario.config ?? {};
      const random = seededRandom(`${old} ${now}`);
      const states = drawn.map(({ scenario }) => scenario.objects);
      const rows = rowsOf(states, config);
      const isIn = (flow: Flow) => {
        const whole = wholeFlow(flow as Parameters<typeof wholeFlow>[0], random, config, [4, 6]);
        return (row: Row): boolean => whole !== null && isInRow(row, whole);
      };
      const packetOf = (row: Row, plan: AddressPlan): Flow | undefined =>
        [...packetsFor(row, plan)].find((one) => isIn(one)(row));

      /** Observes both states on a node; the rows and the kernel agree. */
      const agree = async (at: EnforcedNode, flows: readonly Flow[]): Promise<void> => {
        const options = await at.configure({ ...config });
        const observed: Verdict[][] = [];
        for (const objects of states) {
          await at.write('node.json', objects);
          await at.again('--strict', ...options);
          observed.push(await observe(at.topology, flows));
        }
        const wrong = flows.flatMap((flow, i) => {
          const [before, after] = observed.map((verdicts) => verdicts[i]);
          const row = rows.find(isIn(flow));
          count(row === undefined ? 'same' : `${row.direction} ${row.traffic}`);
          if (row !== undefined) count(`${row.before} to ${row.after}`);
          const isRight =
            row === undefined
              ? before === after
              : before === asObserved(flow, row.before) && after === asObserved(flow, row.after);
          return isRight
            ? []
            : [`${JSON.stringify(flow)}: ${before} to ${after}; row ${JSON.stringify(row)}`];
        });
        const shown = wrong.slice(0, 5).join('\n');
        assert.equal(wrong.length, 0, `${wrong.length} of ${flows.length} flows:\n${shown}`);
      };

      const here = rows.map((row) => packetOf(row, PLAN));
      const flows = [...here, ...drawn.flatMap((one) => one.flows)]
        .filter((flow) => flow !== undefined)
        .filter(({ src, dst }) => [src, dst].some((end) => !OWN.has(end)));
      await agree(node, flows);
      const others = rows.filter((row, i) => {
        const reason = here[i] === undefined ? hindrance(row, PLAN) : null;
        count(here[i] === undefined ? `no packet: ${reason ?? 'of a client of the plan'}` : 'a packet');
        return here[i] === undefined && reason === null;
      });
      const plans = plansFor(others, PLAN);
      for (const { plan, rows: some } of plans) {
        const elsewhere = await createEnforcedNode(plan);
        try {
          const packets = some.map(
            (row) => packetOf(row, plan) ?? assert.fail(`no packet for ${JSON.stringify(row)}`),
          );
          await agree(elsewhere, packets);
        } finally {
          await elsewhere.close();
        }
        for (const _ of some) count('a packet of a client placed for its row');
      }
      assert.equal(plans.flatMap((one) => one.rows).length, others.length);
    });
  }

  it('has seen every kind of difference', () => {
    process.stdout.write(`${[...seen].map(([key, times]) => `${times} ${key}`).join('; ')}\n`);
    for (const key of EXPECTED) assert.ok((seen.get(key) ?? 0) >= 5, `${key}: ${JSON.stringify([...seen])}`);
  });
});

const EXPECTED = [
  'same',
  'a packet',
  'a packet of a client placed for its row',
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
