import {
  type NetAddress,
  type NetLink,
  type NetNeighbour,
  type NetNexthop,
  type NetPeer,
  type NetRoute,
  type NetRule,
  type Netstate,
  OWN_NETWORK,
} from '../../../apis/egress/netstate.ts';
import type { NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { WIREGUARD_KEY_FILE } from '../../../apis/objects.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { type AnswerRoute, AnswerRoutes, withFormer } from './answer-routes.ts';
import { GATEWAY, MARK_MASK, slotMark } from './marks.ts';
import {
  isEncrypted,
  leastUnderlayMtu,
  linkLocal,
  outerAddress,
  TUNNEL,
  TUNNEL_ADDRESS,
  tunnelMtu,
  WIREGUARD_TUNNEL,
  wireguardMtu,
} from './tunnel.ts';

/** Facts that the network configuration depends on besides NodeEgress. */
export interface EgressHost {
  /** Link group of the tunnel's device. */
  readonly group: number;
  /** MTU of the interface that carries the tunnel. */
  readonly underlayMtu: number;
  /** Its name, for messages. */
  readonly underlay?: string | undefined;
  /** Whether the tunnel has to be encrypted; absent: it must not. */
  readonly encrypts?: boolean;
  /** The public key of this node's WireGuard device; absent: not known. */
  readonly ownKey?: string | undefined;
}

/** Why this node has no tunnel, in spite of its end of one; null: it has. */
export function tunnelRefusal(
  egress: NodeEgress | null,
  { encrypts = false, underlayMtu, underlay = 'with the address of this Node' }: Omit<EgressHost, 'group'>,
): string | null {
  const tunnel = egress?.tunnel ?? null;
  if (tunnel === null) return null;
  const least = leastUnderlayMtu(tunnel);
  if (isEncrypted(tunnel) !== encrypts) {
    const [own, controllers] = encrypts ? ['WireGuard', 'None'] : ['None', 'WireGuard'];
    return `egress.encryption is ${own} in the configuration of this agent and ${controllers} in that of the controller: give both the same, and restart the one that has an older one. ${NO_TUNNEL}`;
  }
  if (underlayMtu >= least || !needsTunnel(egress)) return null;
  const kind = encrypts ? 'encrypted tunnel' : 'tunnel';
  return `interface ${underlay} has MTU ${underlayMtu}, and the ${kind} of egress gateways needs ${least}: give it that, and restart the agent. ${NO_TUNNEL}`;
}

const NO_TUNNEL = 'Until then nothing goes through the tunnel';

/** Whether the node has gateways, or is one. */
function needsTunnel(egress: Pick<NodeEgress, 'peers' | 'takes'> | null): boolean {
  return egress !== null && (egress.peers.size > 0 || egress.takes.size > 0);
}

/** Why others have no tunnel to this node, by the keys that are told; null: nothing is wrong. */
export function keyProblem(egress: NodeEgress | null, { ownKey }: Pick<EgressHost, 'ownKey'>): string | null {
  const key = egress?.tunnel?.key;
  if (egress === null || key === undefined || ownKey === undefined || key === ownKey) return null;
  const twin = egress.peers.values().find((end) => end.key === ownKey);
  if (twin !== undefined)
    return `Node ${twin.node} has the WireGuard key of this node, so this node has no tunnel: ${NEW_KEY}`;
  if (key === '') return null;
  return `the controllers know another WireGuard key of this node than it has, so other nodes send it nothing until they know the right one. If this lasts, another Node has reported that one: ${NEW_KEY}`;
}

const NEW_KEY = `remove the file ${WIREGUARD_KEY_FILE} of this node's state directory, and restart its agent`;

export const NO_NETSTATE: Netstate = {
  links: [],
  peers: [],
  addresses: [],
  neighbours: [],
  nexthops: [],
  routes: [],
  rules: [],
  sysctls: [],
};

/** Tables and next hops of ours: with a slot's number, or a node's hash. */
const [TABLES] = OWN_NETWORK.tables;
const TABLE_OF_ANSWERS = TABLES + 0x100;
const [SLOT_NEXTHOPS, LAST_NEXTHOP] = OWN_NETWORK.nexthops;
const PEER_NEXTHOPS = LAST_NEXTHOP - 0xfffff;

/** Routing rules: before those of CNIs and before main (32766). */
const PRIORITY = { skip: 70, slots: 71, end: 79 } as const;

/**
 * Stage 5 for egress gateways: what the node needs in the kernel's network configuration. Pure;
 * lists are sorted. Nothing where this node neither uses the tunnel nor is a gateway: a gateway
 * keeps its device while no pod uses it, for connections that pods had.
 */
export function toNetstate(egress: NodeEgress | null, host: EgressHost): Netstate {
  return netstateRenderer()(egress, host);
}

/** The same for a sequence of values. Where nothing changed it gives the same object. */
export function netstateRenderer(): typeof toNetstate {
  const answerRoutes = new AnswerRoutes();
  let last: { readonly parts: readonly unknown[]; readonly netstate: Netstate } | null = null;
  return (egress, host) => {
    if (egress === null || egress.tunnel === null) return NO_NETSTATE;
    if (!needsTunnel(egress)) return NO_NETSTATE;
    if (tunnelRefusal(egress, host) !== null) return NO_NETSTATE;
    const { tunnel, slots, peers, answers } = egress;
    const routes = answerRoutes.next(egress);
    const parts = [tunnel, slots, peers, answers, routes, host.group, host.underlayMtu, host.ownKey];
    if (last === null || !sameItems(last.parts, parts)) {
      const ends = reachable(tunnel, withFormer(peers, answers));
      last = { parts, netstate: render({ tunnel, slots, peers: ends }, routes, host) };
    }
    return last.netstate;
  };
}

/**
 * The ends that are as this one: an end that is not encrypted gets nothing from one that is, and
 * the other way round.
 */
function reachable(tunnel: TunnelEnd, ends: NodeEgress['peers']): NodeEgress['peers'] {
  const isAlike = (end: TunnelEnd): boolean => isEncrypted(end) === isEncrypted(tunnel);
  return ends.values().every(isAlike) ? ends : new Map([...ends].filter(([, end]) => isAlike(end)));
}

function render(
  { tunnel, slots: all, peers }: Pick<NodeEgress, 'slots' | 'peers'> & { readonly tunnel: TunnelEnd },
  answerRoutes: readonly AnswerRoute[],
  host: EgressHost,
): Netstate {
  const slots = [...all.values()]
    .filter(({ take }) => take === 0)
    .flatMap(({ number, node }) => {
      const peer = peers.get(node);
      return peer === undefined ? [] : [{ number, peer }];
    })
    .sort((a, b) => a.number - b.number);
  const answers = toAnswers(answerRoutes, peers);
  return {
    ...devices(tunnel, host),
    peers: isEncrypted(tunnel) ? wireguardPeers(peers, host.ownKey) : [],
    neighbours: neighbours(peers),
    nexthops: [
      ...slots.map(({ number, peer }) => toNexthop(SLOT_NEXTHOPS + number, peer)),
      ...answers.nexthops,
    ],
    routes: [...slots.flatMap(({ number }) => defaultRoutes(number)), ...answers.routes],
    rules: FAMILIES.flatMap((family) => rules(family, slots, answers.routes.length > 0)),
  };
}

function devices(
  tunnel: TunnelEnd,
  { group, underlayMtu }: EgressHost,
): Pick<Netstate, 'links' | 'addresses' | 'sysctls'> {
  const { id, port, link: name } = TUNNEL;
  const mtu = tunnelMtu(tunnel, underlayMtu);
  const link: NetLink = {
    kind: 'vxlan',
    name,
    mac: tunnel.mac,
    group,
    mtu,
    id,
    port,
    local: outerAddress(tunnel),
  };
  const address: NetAddress = { link: name, address: TUNNEL_ADDRESS, prefixLength: 32 };
  const carrier = isEncrypted(tunnel) ? wireguard(tunnel, underlayMtu) : NO_CARRIER;
  const sysctl = (path: string, value: string) => ({ path: `net/ipv4/conf/${name}/${path}`, value });
  // Next hops are IPv6, also where the host has IPv6 off by default.
  const withIPv6 = { path: `net/ipv6/conf/${name}/disable_ipv6`, value: '0' };
  // The link-local address that the MAC gives, which others ask whether this node is there.
  const byMac = { path: `net/ipv6/conf/${name}/addr_gen_mode`, value: '0' };
  return {
    links: [link, ...carrier.links],
    addresses: [address, ...carrier.addresses],
    // Loose: at the pod's node the way back to the server is another interface. With the mark: at
    // the gateway the way back to the pod is in a table of ours.
    sysctls: [sysctl('rp_filter', '2'), sysctl('src_valid_mark', '1'), withIPv6, byMac, ...carrier.sysctls],
  };
}

const NO_CARRIER: ReturnType<typeof wireguard> = { links: [], addresses: [], sysctls: [] };

/** The device that carries the tunnel, with a route to those of all nodes. */
function wireguard(tunnel: TunnelEnd, underlay: number): Pick<Netstate, 'links' | 'addresses' | 'sysctls'> {
  const { link: name, group } = WIREGUARD_TUNNEL;
  return {
    links: [{ kind: 'wireguard', name, group, mtu: wireguardMtu(tunnel, underlay) }],
    addresses: [{ link: name, address: outerAddress(tunnel), prefixLength: 64 }],
    sysctls: [{ path: `net/ipv6/conf/${name}/disable_ipv6`, value: '0' }],
  };
}

/**
 * To a node without a key nothing is sent: its address inside leads to no peer. The kernel takes no
 * peer with the device's own key.
 */
function wireguardPeers(peers: NodeEgress['peers'], ownKey: string | undefined): NetPeer[] {
  const known = [...peers.values()].flatMap((end): NetPeer[] =>
    end.key === undefined || end.key === '' || end.key === ownKey
      ? []
      : [{ link: WIREGUARD_TUNNEL.link, key: end.key, endpoint: end.address, address: outerAddress(end) }],
  );
  // A key is one peer.
  const byKey = new Map(known.map((peer) => [peer.key, peer]));
  return sorted([...byKey.values()], ({ key }) => key);
}

function neighbours(peers: NodeEgress['peers']): NetNeighbour[] {
  const link = TUNNEL.link;
  return sorted([...peers.values()], ({ mac }) => mac).flatMap((end): NetNeighbour[] => [
    { kind: 'fdb', link, mac: end.mac, remote: outerAddress(end) },
    { kind: 'neighbour', link, address: linkLocal(end.mac), mac: end.mac },
  ]);
}

function toNexthop(id: number, { mac }: TunnelEnd): NetNexthop {
  return { id, via: linkLocal(mac), link: TUNNEL.link };
}

function defaultRoutes(slot: number): NetRoute[] {
  return FAMILIES.map((family) => ({
    family,
    table: TABLES + slot,
    nexthop: SLOT_NEXTHOPS + slot,
    destination: family === 4 ? '0.0.0.0/0' : '::/0',
  }));
}

/** At the gateway: answers to the pods that it serves, by their nodes. */
function toAnswers(
  routes: readonly AnswerRoute[],
  peers: NodeEgress['peers'],
): Pick<Netstate, 'nexthops' | 'routes'> {
  const nodes = new Set(routes.flatMap(({ node }) => node ?? []));
  const used = [...nodes].flatMap((node) => peers.get(node) ?? []);
  const ids = nexthopIds(sorted(used, ({ mac }) => mac));
  const toPods = routes.flatMap(({ family, destination, node }): NetRoute[] => {
    const nexthop = node === null ? null : ids.get(node);
    return nexthop === undefined ? [] : [{ family, table: TABLE_OF_ANSWERS, destination, nexthop }];
  });
  return {
    nexthops: [...ids]
      .flatMap(([node, id]) => {
        const peer = peers.get(node);
        return peer === undefined ? [] : [toNexthop(id, peer)];
      })
      .sort((a, b) => (a.id < b.id ? -1 : 1)),
    routes: sorted(toPods, ({ destination }) => destination),
  };
}

/**
 * A number for each node by its MAC, so that it stays when other nodes come and go. Where two have
 * the same, the second takes the next one.
 */
function nexthopIds(peers: readonly TunnelEnd[]): ReadonlyMap<string, number> {
  const taken = new Set<number>();
  return new Map(
    peers.map(({ node, mac }) => {
      let offset = Number.parseInt(shortHash(5, mac), 16);
      while (taken.has(offset)) offset++;
      taken.add(offset);
      return [node, PEER_NEXTHOPS + offset];
    }),
  );
}

/** So many comparisons cost no more than the jump over them. */
const FEW_RULES = 2;

/** Packets without a mark of ours pay for two comparisons at the most. */
function rules(family: 4 | 6, slots: readonly { readonly number: number }[], answers: boolean): NetRule[] {
  const bySlot = slots.map(
    ({ number }): NetRule => ({
      family,
      priority: PRIORITY.slots,
      action: 'table',
      table: TABLES + number,
      mark: slotMark(number),
      mask: MARK_MASK,
    }),
  );
  const toPods: NetRule = {
    family,
    priority: PRIORITY.slots,
    action: 'table',
    table: TABLE_OF_ANSWERS,
    mark: GATEWAY,
    mask: GATEWAY,
  };
  const byMark = [...bySlot, ...(answers ? [toPods] : [])];
  if (byMark.length <= FEW_RULES) return byMark;
  return [
    { family, priority: PRIORITY.skip, action: 'goto', target: PRIORITY.end, mark: 0, mask: MARK_MASK },
    ...byMark,
    { family, priority: PRIORITY.end, action: 'nop' },
  ];
}

function sorted<T>(items: readonly T[], by: (item: T) => string): T[] {
  return items.toSorted((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0));
}
