import { egressCount } from '../../agent/egress/render/counted.ts';
import { toNetstate } from '../../agent/egress/render/netstate.ts';
import { egressRenderer } from '../../agent/egress/render/render-egress.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { Config } from '../../apis/config.ts';
import { DEFAULT_EGRESS_GROUP } from '../../apis/egress/link-group.ts';
import type { Netstate } from '../../apis/egress/netstate.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import {
  type Address,
  type Family,
  formatAddress,
  lastAddress,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import type { EgressAnswer } from '../oracle/egress/permission.ts';
import type { Packet } from '../tracer/packet.ts';
import { type Path, pathTracer, type Route } from '../tracer/path.ts';
import type { SteeredPacket } from './egress-walk.ts';

/** One node as its agent renders it. */
interface RenderedNode {
  readonly name: string;
  readonly egress: NodeEgress;
  readonly ruleset: Ruleset;
  readonly netstate: Netstate;
}

const UPLINK = 0;

/** Traces packets through the rendered tables and network configurations of all nodes. */
export class EgressTracer {
  readonly #nodes: ReadonlyMap<string, RenderedNode>;
  readonly #config: Config;

  constructor(nodes: ReadonlyMap<string, NodeEgress>, config: Config) {
    this.#config = config;
    this.#nodes = new Map([...nodes].map(([name, egress]) => [name, rendered(name, egress, config)]));
  }

  /**
   * Where the first packet of a connection ends, as an answer of `explain`; a Direct does not say
   * why. With `isDamaged` no routing rule of ours is there.
   */
  trace({ node: name, src, dst }: SteeredPacket, isDamaged = false): EgressAnswer {
    const [from, to] = [parseAddress(src), parseAddress(dst)];
    const node = this.#nodes.get(name);
    if (node === undefined || from === null || to === null) throw new Error(`no way from ${name}`);
    const first = toFirstPacket(from, to, this.#config.interfaceGroups.pods);
    const hops: string[] = [];
    const sent = pathTracer(node.ruleset, isDamaged ? byMain : routeOf(node, hops))(first);
    const policy = policyOf(sent, node);
    if (sent.packet.output?.group !== DEFAULT_EGRESS_GROUP || sent.verdict !== 'Allow')
      return ended(sent, node, policy, from);
    if (sent.packet.src !== from.value)
      throw new Error(`${name} translates what it sends through the tunnel`);
    const gateway = this.#behindTunnel(node, hops.at(-1));
    const arrived = pathTracer(
      gateway.ruleset,
      routeOf(gateway, []),
    )({
      ...toFirstPacket(from, to, DEFAULT_EGRESS_GROUP),
      sourceMac: node.egress.tunnel?.mac ?? '',
    });
    return ended(arrived, gateway, policy, from);
  }

  /** The node at the other end of the tunnel, by the next hop. */
  #behindTunnel({ netstate, name }: RenderedNode, via: string | undefined): RenderedNode {
    const neighbour = netstate.neighbours.find((one) => one.kind === 'neighbour' && one.address === via);
    const entry = netstate.neighbours.find((one) => one.kind === 'fdb' && one.mac === neighbour?.mac);
    const remote = entry?.kind === 'fdb' ? entry.remote : null;
    const found = [...this.#nodes.values()].find(
      ({ egress: { tunnel } }) => tunnel !== null && tunnel.address === remote && tunnel.mac === entry?.mac,
    );
    if (found === undefined) throw new Error(`${name}: nothing at ${via}`);
    return found;
  }
}

function rendered(name: string, egress: NodeEgress, config: Config): RenderedNode {
  const { chains, sets, maps } = egressRenderer(config)(egress);
  const ruleset = {
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: new Map(sets.map((set) => [set.name, set])),
    maps: new Map(maps.map((map) => [map.name, map])),
  };
  const netstate = toNetstate(egress, { group: DEFAULT_EGRESS_GROUP, underlayMtu: 1500 });
  return { name, egress, ruleset, netstate };
}

/** Of UDP, which nothing resets. */
function toFirstPacket({ family, value: src }: Address, { value: dst }: Address, group: number): Packet {
  return {
    ...{ direction: 'ingress', family, src, dst, protocol: 17, srcPort: 40_000, dstPort: 443 },
    ...{ interface: { name: 'eth0', group }, established: false, original: null, isForwarded: true },
  };
}

/** The address of the interface, for masquerade: one that no object has. */
const ADDRESS_OF_UPLINK = 0x7f_ff_ff_fen;
const byMain: Route = () => ({ name: 'eth0', group: UPLINK, address: ADDRESS_OF_UPLINK });

/** By the routing rules, else main. `hops`: gets the next hop. */
function routeOf({ netstate }: RenderedNode, hops: string[]): Route {
  return (packet) => {
    const via = nexthopOf(netstate, packet);
    if (via === null) return byMain(packet);
    hops.push(via);
    return { name: 'eth0', group: DEFAULT_EGRESS_GROUP };
  };
}

/** The next hop that ip(8) would find for the packet; null: in main. */
function nexthopOf({ rules, routes, nexthops }: Netstate, packet: Packet): string | null {
  let from = 0;
  const own = rules.filter(({ family }) => family === packet.family);
  for (const rule of own.toSorted((a, b) => a.priority - b.priority)) {
    if (rule.priority < from || rule.action === 'nop') continue;
    if (((packet.mark ?? 0) & rule.mask) >>> 0 !== rule.mark) continue;
    if (rule.action === 'goto') {
      from = rule.target;
      continue;
    }
    const route = routes.find(
      ({ table, family, destination }) =>
        table === rule.table && family === packet.family && contains(destination, packet.dst),
    );
    const hop = nexthops.find(({ id }) => id === route?.nexthop);
    if (hop !== undefined && 'via' in hop) return hop.via;
  }
  return null;
}

function contains(destination: string, value: bigint): boolean {
  const cidr = parseCidr(destination)?.cidr;
  return cidr !== undefined && cidr.value <= value && value <= lastAddress(cidr);
}

function ended(
  { verdict, end, packet }: Path,
  { name }: RenderedNode,
  policy: string | null,
  { family, value }: Address,
): EgressAnswer {
  const nothing = { gateway: null, node: null, address: null };
  if (verdict !== 'Allow') {
    const reason = end?.chain.startsWith(DROP) ? end.chain.slice(DROP.length) : 'policy';
    return { verdict: 'Drop', policy, ...nothing, reason };
  }
  if (packet.src === value) return { verdict: 'Direct', policy, ...nothing, reason: 'policy' };
  const address = packet.src === ADDRESS_OF_UPLINK ? null : textOf(family, packet.src);
  return { verdict: 'Gateway', policy, gateway: null, node: name, address, reason: 'policy' };
}

const DROP = 'egress-drop-';

function textOf(family: Family, value: bigint): string {
  return formatAddress({ family, value });
}

/** By the chain of the outcome that the packet went through; `EgressPolicy shop/a` is `shop/a`. */
function policyOf({ visited }: Path, { ruleset }: RenderedNode): string | null {
  for (const chain of visited) {
    const id = ruleset.chains.get(chain)?.ruleId ?? null;
    const found = id === null ? null : egressCount(id);
    if (found !== null && 'policy' in found) return found.policy.slice(found.policy.indexOf(' ') + 1);
  }
  return null;
}
