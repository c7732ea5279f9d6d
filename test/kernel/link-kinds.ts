/** Links between two machines by each kind of interface that nodes of clusters have. */

export const UNDERLAY = { node: '192.0.2.1', peer: '192.0.2.2' } as const;
/** Inside of the link. */
export const INSIDE = {
  4: { node: '198.18.0.1', peer: '198.18.0.2' },
  6: { node: 'fd00:18::1', peer: 'fd00:18::2' },
} as const;
type InsideFamily = keyof typeof INSIDE;

export interface LinkKind {
  readonly kind: string;
  /** The node's interface with the address inside, and the peer's. */
  readonly name: string;
  readonly peerName: string;
  /** The link group that the node's interface gets: 9 for a CNI's tunnel by name and kind. */
  readonly group: 0 | 9;
  readonly families: readonly InsideFamily[];
  /** UDP port of its outer packets; null: they have another IP protocol, or there are none. */
  readonly port: number | null;
  /** Lines of ip that make it, without addresses. Both machines have an end of a cable, `eth1`. */
  readonly node: readonly string[];
  readonly peer: readonly string[];
  /** False: a program on the node has to choose it (a VRF). */
  readonly isDefault: boolean;
}

/** A tunnel between the addresses of the network that the machines have in common. */
function tunnel(
  kind: string,
  name: string,
  { group, port, families }: Pick<LinkKind, 'group' | 'port' | 'families'>,
  line: (local: string, remote: string) => string,
): LinkKind {
  const { node, peer } = UNDERLAY;
  return {
    kind,
    name,
    peerName: name,
    group,
    families,
    port,
    isDefault: true,
    node: [`link add ${name} type ${line(node, peer)}`],
    peer: [`link add ${name} type ${line(peer, node)}`],
  };
}

/** Interfaces on the cable; the peer has the cable itself. */
function onWire(kind: string, name: string, node: readonly string[]): LinkKind {
  const rest = { families: [4, 6] as const, port: null, isDefault: true };
  return { ...rest, kind, name, peerName: 'eth1', group: 0, node, peer: [] };
}

export const WIREGUARD_PORT = 51_820;
const BOTH = [4, 6] as const;
const CIPHER = `aead rfc4106(gcm(aes)) 0x${'0123456789'.repeat(4)} 128`;

/** IPsec with an interface of its own: both directions of the association, at each end. */
function ipsec(local: string, remote: string): string[] {
  const ends = [
    [local, remote, 'out'],
    [remote, local, 'in'],
  ] as const;
  return [
    'link add ipsec0 type xfrm dev nic if_id 7',
    ...ends.flatMap(([src, dst, direction]) => [
      `xfrm state add src ${src} dst ${dst} proto esp spi 7 reqid 7 mode tunnel ${CIPHER} if_id 7`,
      `xfrm policy add dir ${direction} src 198.18.0.0/24 dst 198.18.0.0/24 ` +
        `tmpl src ${src} dst ${dst} proto esp reqid 7 mode tunnel if_id 7`,
    ]),
  ];
}

export const LINK_KINDS: readonly LinkKind[] = [
  tunnel(
    'vxlan',
    'flannel.7',
    { group: 9, port: 8472, families: BOTH },
    (local, remote) => `vxlan id 7 local ${local} remote ${remote} dstport 8472`,
  ),
  tunnel(
    'geneve',
    'cilium_geneve',
    { group: 9, port: 6081, families: BOTH },
    (_, remote) => `geneve id 7 remote ${remote}`,
  ),
  tunnel(
    'wireguard',
    'wireguard.cali',
    { group: 9, port: WIREGUARD_PORT, families: BOTH },
    () => 'wireguard',
  ),
  tunnel(
    'ipip',
    'flannel.ipip',
    { group: 9, port: null, families: [4] },
    (local, remote) => `ipip local ${local} remote ${remote}`,
  ),
  tunnel(
    'gre',
    'gre7',
    { group: 0, port: null, families: [4] },
    (local, remote) => `gre local ${local} remote ${remote}`,
  ),
  {
    kind: 'xfrm',
    name: 'ipsec0',
    peerName: 'ipsec0',
    group: 0,
    families: [4],
    port: null,
    isDefault: true,
    node: ipsec(UNDERLAY.node, UNDERLAY.peer),
    peer: ipsec(UNDERLAY.peer, UNDERLAY.node),
  },
  {
    ...onWire('vlan', 'eth1.7', ['link add link eth1 name eth1.7 type vlan id 7']),
    peerName: 'eth1.7',
    peer: ['link add link eth1 name eth1.7 type vlan id 7'],
  },
  onWire('macvlan', 'macvlan0', ['link add link eth1 name macvlan0 type macvlan mode bridge']),
  onWire('ipvlan', 'ipvlan0', ['link add link eth1 name ipvlan0 type ipvlan mode l2']),
  onWire('bond', 'bond0', [
    'link add bond0 type bond mode active-backup miimon 100',
    'link set eth1 down',
    'link set eth1 master bond0',
    'link set eth1 up',
  ]),
  {
    ...onWire('vrf', 'eth1', [
      'link add vrf7 type vrf table 7',
      'link set vrf7 up',
      'link set eth1 master vrf7',
    ]),
    isDefault: false,
  },
];
