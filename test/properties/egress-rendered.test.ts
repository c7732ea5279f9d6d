import assert from 'node:assert/strict';
import { NO_NETSTATE, toNetstate } from '../../agent/egress/render/netstate.ts';
import { render } from '../../agent/render/render.ts';
import { emptyNodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Netstate } from '../../apis/egress/netstate.ts';
import { EGRESS_DROP_REASONS, type NodeEgress } from '../../apis/egress/node-egress.ts';
import { type Address, type Family, formatAddress, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { egressScenario } from '../generate/egress/egress-scenario.ts';
import { withAlive } from '../tracer/egress-table.ts';
import type { Packet } from '../tracer/packet.ts';
import { nextOf, type Path, pathTracer } from '../tracer/path.ts';
import { count, type Seen } from './agree.ts';
import { toNodeEgress } from './egress-agree.ts';
import { walkPacket } from './egress-walk.ts';
import { check, flowCount, missingOf } from './runs.ts';

const PODS = { name: 'eth0', group: 8 } as const;
const TUNNEL = { name: 'eth0', group: 10 } as const;
const HOST = { group: TUNNEL.group, underlayMtu: 1500 } as const;

/** Where a packet's way through the cluster ended. */
interface Journey {
  /** The node that it left the cluster by, or was dropped on. */
  readonly node: string;
  /** Its ways through nodes, in order. */
  readonly paths: readonly Path[];
  /** Out: by the uplink of that node. */
  readonly end: 'out' | 'pods' | 'dropped';
}

/** Nodes with what is rendered for them, connected by their tunnels. */
class EgressNetwork {
  readonly #nodes: ReadonlyMap<string, TracedNode>;

  /** @param netstateOf what of the network configuration is there */
  constructor(
    views: ReadonlyMap<string, NodeEgress>,
    netstateOf = (egress: NodeEgress): Netstate => toNetstate(egress, HOST),
  ) {
    this.#nodes = new Map(
      [...views].map(([name, egress], i) => [
        name,
        new TracedNode(name, egress, BigInt(i + 1), netstateOf(egress)),
      ]),
    );
  }

  /** The address that a node's uplink has. */
  uplink(node: string, family: Family): string {
    return formatAddress({ family, value: this.#node(node).uplink[family] });
  }

  /** The first packet of a connection that a pod begins. */
  first(node: string, src: Address, dst: Address): Journey {
    const packet: Packet = {
      direction: 'ingress',
      family: src.family,
      src: src.value,
      dst: dst.value,
      protocol: 17,
      srcPort: 40000,
      dstPort: 53,
      interface: PODS,
      established: false,
      original: null,
      isForwarded: true,
    };
    return this.#send(node, packet, () => ({}));
  }

  /** A later packet of the same connection. */
  again({ paths }: Journey, node: string): Journey {
    const [first] = paths;
    if (first === undefined) throw new Error('no way');
    const { src, dst } = sentAs(first);
    const packet: Packet = { ...first.packet, src, dst, interface: PODS, mark: 0, maxSegment: 0 };
    return this.#send(node, packet, (i) => stateOf(paths[i]));
  }

  /** The answer to a packet that has left: back to where it came from. */
  answer({ node, paths }: Journey, source: Address, destination: Address): Journey {
    const back = paths.toReversed();
    const left = back[0]?.packet;
    if (left === undefined) throw new Error('no way');
    const packet: Packet = {
      direction: 'ingress',
      family: source.family,
      src: destination.value,
      dst: left.src,
      protocol: 17,
      srcPort: 53,
      dstPort: 40000,
      interface: this.#node(node).toUplink(source.family),
      established: true,
      original: null,
      isForwarded: true,
      ctDirection: 'reply',
    };
    return this.#send(node, packet, (i) => stateOf(back[i]));
  }

  /** @param state what conntrack of the node at this place of the way knows */
  #send(name: string, packet: Packet, state: (place: number) => Partial<Packet>): Journey {
    const paths: Path[] = [];
    let node = this.#node(name);
    let now = packet;
    for (;;) {
      const path = node.walk({ ...now, ...state(paths.length) });
      paths.push(path);
      const done = { node: node.name, paths } as const;
      if (path.verdict !== 'Allow') return { ...done, end: 'dropped' };
      if (path.packet.output?.group === PODS.group) return { ...done, end: 'pods' };
      if (path.packet.output?.group !== TUNNEL.group) return { ...done, end: 'out' };
      if (paths.length > 2) throw new Error('more than one tunnel');
      const sourceMac = node.mac;
      const { src, dst } = path.packet;
      node = this.#at(node.remote);
      now = { ...packet, src, dst, interface: TUNNEL, ...(sourceMac === null ? {} : { sourceMac }) };
    }
  }

  #node(name: string): TracedNode {
    const found = this.#nodes.get(name);
    if (found === undefined) throw new Error(`no node ${name}`);
    return found;
  }

  #at(address: string | null): TracedNode {
    const found = [...this.#nodes.values()].find(({ egress }) => egress.tunnel?.address === address);
    if (found === undefined) throw new Error(`no node has the tunnel end ${address}`);
    return found;
  }
}

/** Before source NAT of the node. */
function sentAs({ packet }: Path): Pick<Packet, 'src' | 'dst'> {
  return { src: packet.binding?.from ?? packet.src, dst: packet.dst };
}

function stateOf(path: Path | undefined): Partial<Packet> {
  if (path === undefined) return {};
  const { ctMark, ctLabels = [], binding, established } = nextOf(path, path.packet);
  return {
    established,
    ctLabels,
    ...(ctMark === undefined ? {} : { ctMark }),
    ...(binding === undefined ? {} : { binding }),
  };
}

class TracedNode {
  readonly name: string;
  readonly egress: NodeEgress;
  readonly uplink: Readonly<Record<Family, bigint>>;
  /** The other end of the tunnel that the last packet was routed to. */
  remote: string | null = null;
  readonly walk: (packet: Packet) => Path;
  readonly #netstate: Netstate;

  constructor(name: string, egress: NodeEgress, number: bigint, netstate: Netstate) {
    this.name = name;
    this.egress = egress;
    this.uplink = { 4: 0xc6120000n + number, 6: (0x20010db80000ffffn << 64n) + number };
    this.#netstate = netstate;
    const alive = egress.owned.flatMap(({ addresses }) => addresses);
    const ruleset = withAlive(render({ ...emptyNodeState(name), egress }, DEFAULT_CONFIG), alive);
    this.walk = pathTracer(ruleset, (packet) => this.#route(packet));
  }

  get mac(): string | null {
    return this.egress.tunnel?.mac ?? null;
  }

  toUplink(family: Family): NonNullable<Packet['output']> {
    return { name: 'eth0', group: 0, address: this.uplink[family] };
  }

  /** By the rules in their order; then by the main table, which has the node's own pods. */
  #route({ family, mark = 0, dst }: Packet): Packet['output'] {
    const { rules, routes } = this.#netstate;
    this.remote = null;
    for (const rule of rules) {
      if (rule.family !== family || rule.action === 'nop' || (mark & rule.mask) >>> 0 !== rule.mark) continue;
      // The goto skips the tables.
      if (rule.action === 'goto') break;
      const [route] = routes
        .filter((one) => one.family === family && one.table === rule.table && covers(one.destination, dst))
        .sort((a, b) => lengthOf(b.destination) - lengthOf(a.destination));
      if (route === undefined || route.nexthop === null) continue;
      this.remote = this.#remoteOf(route.nexthop);
      return TUNNEL;
    }
    return this.egress.sources.has(formatAddress({ family, value: dst })) ? PODS : this.toUplink(family);
  }

  #remoteOf(id: number): string {
    const { nexthops, neighbours } = this.#netstate;
    const hop = nexthops.find((one) => one.id === id);
    const via = hop !== undefined && 'via' in hop ? hop.via : null;
    const mac = neighbours.find((one) => one.kind === 'neighbour' && one.address === via)?.mac;
    const entry = neighbours.find((one) => one.kind === 'fdb' && one.mac === mac);
    if (entry?.kind !== 'fdb') throw new Error(`next hop ${id} leads nowhere`);
    return entry.remote;
  }
}

function lengthOf(destination: string): number {
  return Number(destination.split('/')[1]);
}

function covers(destination: string, value: bigint): boolean {
  const cidr = parseCidr(destination)?.cidr;
  if (cidr === undefined) throw new Error(`${destination} is no CIDR`);
  const bits = BigInt((cidr.family === 4 ? 32 : 128) - cidr.length);
  return cidr.value >> bits === value >> bits;
}

interface Sent {
  readonly node: string;
  readonly src: Address;
  readonly dst: Address;
}

describe('the rules and routes of all nodes', function () {
  this.timeout(0);

  it('take packets where the compiled values say, and the answers back; without routing rules they drop them', function () {
    const seen: Seen = new Map();
    check(
      this,
      100,
      egressScenario(6, 60),
      (drawn) => {
        const views = toNodeEgress(drawn);
        const network = new EgressNetwork(views);
        const damaged = new EgressNetwork(views, () => NO_NETSTATE);
        const destinations = drawn.flows.flatMap(({ dst }) => parseAddress(dst) ?? []);
        for (const sent of someOf(packets(views, destinations), flowCount(150)))
          assertSame({ network, damaged }, views, sent, seen);
      },
      missingOf(seen, EXPECTED, 1),
    );
  });
});

const REASONS: readonly string[] = [...EGRESS_DROP_REASONS, 'policy'];

const EXPECTED = [
  ...['inside', 'no-policy', 'policy'].map((reason) => `Direct ${reason}`),
  ...['no-gateway', 'not-ready', 'no-family', 'unknown-pod', 'policy'].map((reason) => `Drop ${reason}`),
  ...['Gateway here', 'Gateway elsewhere'],
];

/** From every pod that a node knows, and one that it does not know. */
function packets(views: ReadonlyMap<string, NodeEgress>, destinations: readonly Address[]): Sent[] {
  return [...views].flatMap(([node, { sources }]) =>
    [...sources.keys(), '10.250.0.1', 'fd99::1'].flatMap((text) => {
      const src = parseAddress(text) ?? assert.fail(text);
      // Packets of a pod to itself do not leave it.
      const others = destinations.filter(({ family, value }) => family === src.family && value !== src.value);
      return others.map((dst) => ({ node, src, dst }));
    }),
  );
}

function someOf<T>(items: readonly T[], most: number): T[] {
  const step = Math.max(1, items.length / most);
  return Array.from({ length: Math.min(most, items.length) }, (_, i) => items[Math.floor(i * step)] as T);
}

function assertSame(
  { network, damaged }: Readonly<Record<'network' | 'damaged', EgressNetwork>>,
  views: ReadonlyMap<string, NodeEgress>,
  { node, src, dst }: Sent,
  seen: Seen,
): void {
  const isPod = views.get(node)?.sources.has(formatAddress(src)) === true;
  const ends = walkPacket(views, { node, src: formatAddress(src), dst: formatAddress(dst), isPod });
  const wanted = ends.map((end) => {
    const { verdict, reason, node: at } = end;
    const address = end.address ?? (at === null ? null : network.uplink(at, src.family));
    // A gateway drops what it does not serve as unknown.
    if (verdict === 'Drop' && !REASONS.includes(reason)) return 'Drop unknown-pod';
    // Nor does it pass anything on to pods of its own, whatever address they have.
    const isElsewhere = at !== null && at !== node;
    if (isElsewhere && views.get(at)?.sources.has(formatAddress(dst))) return 'Drop unknown-pod';
    return verdict === 'Drop'
      ? `Drop ${reason}`
      : `${verdict} ${at ?? node} ${address ?? formatAddress(src)}`;
  });
  const journey = network.first(node, src, dst);
  const found = text(journey, node);
  assert.ok(
    wanted.includes(found),
    `${found}, not ${wanted.join(' or ')}: ${node} ${formatAddress(src)} ${formatAddress(dst)}`,
  );
  // Without our routing rules nothing leaves by the node itself.
  if (journey.paths.length > 1) assert.equal(damaged.first(node, src, dst).end, 'dropped', found);
  const [end] = ends;
  const where = journey.node === node ? 'here' : 'elsewhere';
  if (end?.verdict !== 'Gateway') count(seen, `${end?.verdict} ${end?.reason}`);
  else if (journey.end !== 'dropped') count(seen, `Gateway ${where}`);
  if (journey.end === 'dropped') return;
  assert.equal(text(network.again(journey, node), node), found, 'a later packet');
  if (!isPod) return;
  const answer = network.answer(journey, src, dst);
  assert.deepEqual(
    [answer.node, answer.end, answer.paths.at(-1)?.packet.dst],
    [node, 'pods', src.value],
    'the answer',
  );
}

function text({ node, paths, end }: Journey, from: string): string {
  const last = paths.at(-1);
  if (last === undefined) return 'nowhere';
  const { family, src, ctMark = 0 } = last.packet;
  if (end === 'dropped') {
    const chain = last.end?.chain ?? '';
    return `Drop ${chain.startsWith('egress-policy-') ? 'policy' : chain.replace('egress-drop-', '')}`;
  }
  const isSteered = paths.length > 1 || ctMark !== 0;
  return `${isSteered ? 'Gateway' : 'Direct'} ${isSteered ? node : from} ${formatAddress({ family, value: src })}`;
}
