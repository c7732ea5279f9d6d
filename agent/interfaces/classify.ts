import type { Link } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import type { AttachedBy, Attachments, LinkAttachment } from './attachment.ts';

/** A group that nodewall set on the link with this index and name. */
export interface OwnedGroup {
  readonly index: number;
  readonly name: string;
  readonly group: number;
}

export type GroupReason =
  | { readonly kind: 'loopback' }
  /**
   * `match` is the pattern of the configuration, `preset` the CNI that names its interfaces like
   * this.
   */
  | { readonly kind: 'match'; readonly match: string; readonly preset: string | null }
  /** A third party set its group, which is left alone. */
  | { readonly kind: 'foreign' }
  /** It looks like an interface of a pod, but attaches the node itself to a network. */
  | { readonly kind: 'own'; readonly by: OwnBy }
  | { readonly kind: 'none' };

/** `master`: it is a port of an interface that attaches the node itself. */
type OwnBy = AttachedBy | 'name' | 'master';

export interface GroupDecision {
  readonly link: Link;
  /** The group that it should be in; 0: none. */
  readonly group: number;
  readonly reason: GroupReason;
}

/** Information that the links themselves do not have. */
interface Known {
  /**
   * Groups that nodewall set, by index. A link with another group than the one here is no longer
   * nodewall's.
   */
  readonly held: ReadonlyMap<number, OwnedGroup>;
  readonly attachments: Attachments;
}

export type Classify = (links: readonly Link[], known: Known) => GroupDecision[];

/**
 * Decides the group of each link, in the order of the links. Names of the configuration go before
 * what is recognized. Groups are tried in a fixed order: pods, clusternet, then the others by name.
 */
export function classifier(config: Pick<Config, 'interfaceGroups' | 'interfaceMatches'>): Classify {
  const groups = groupNames(config).flatMap((name): Group[] => {
    const number = config.interfaceGroups[name] ?? 0;
    const words = config.interfaceMatches[name] ?? [];
    return number === 0 ? [] : [{ name, number, words }];
  });
  const [names, recognizers] = [true, false].map((wanted) =>
    groups.map(({ name, number, words }) => ({
      number,
      matchers: words.filter((word) => isName(word) === wanted).map((word) => matcher(word, name)),
    })),
  );
  const match = (link: Link, around: Around): GroupDecision | null => {
    for (const { number, matchers } of [...(names ?? []), ...(recognizers ?? [])]) {
      for (const matches of matchers) {
        const reason = matches(link, around);
        if (reason !== null) return { link, group: number, reason };
      }
    }
    return null;
  };
  return (links, { held, attachments }) => {
    const isPods = (link: Link): boolean => match(link, around)?.group === config.interfaceGroups.pods;
    const around: Around = toAround(links, attachments, isPods);
    return links.map((link) => {
      if (isForeign(link, held)) return { link, group: link.group, reason: { kind: 'foreign' } };
      if (link.isLoopback) return { link, group: 0, reason: { kind: 'loopback' } };
      return match(link, around) ?? { link, group: 0, reason: ownNetwork(link, around) };
    });
  };
}

interface Group {
  readonly name: string;
  readonly number: number;
  readonly words: readonly string[];
}

/** `*` alone names nothing: it takes what is left. */
function isName(word: string): boolean {
  return word !== '*' && !/^(cni|kind):/.test(word);
}

/** The names of all groups, in the order in which they are tried. */
export function groupNames({ interfaceGroups }: Pick<Config, 'interfaceGroups'>): string[] {
  const others = Object.keys(interfaceGroups).filter((name) => name !== 'pods' && name !== 'clusternet');
  return ['pods', 'clusternet', ...others.sort()];
}

/**
 * The name of a group of the configuration by its number; null for 0 and for an unknown number. The
 * first if several groups have the number.
 */
export function groupName(config: Pick<Config, 'interfaceGroups'>, number: number): string | null {
  if (number === 0) return null;
  return groupNames(config).find((name) => config.interfaceGroups[name] === number) ?? null;
}

/** Problems of patterns in the configuration that are not known, with those that are. */
export function unknownMatches({ interfaceMatches }: Pick<Config, 'interfaceMatches'>): string[] {
  const problems: string[] = [];
  for (const [group, words] of Object.entries(interfaceMatches)) {
    for (const word of words) {
      const [, what, name = ''] = /^(cni|kind):(.*)$/.exec(word) ?? [];
      const known = what === 'cni' ? ['*', ...CNIS] : what === 'kind' ? ['veth', 'bridge'] : [name];
      if (!known.includes(name)) {
        problems.push(
          `interfaceGroups.${group}.match: ${word} is unknown; valid are ${what}:${known.join(`, ${what}:`)}`,
        );
      }
    }
  }
  return problems;
}

/** The reason, human-readable. */
export function groupReasonText(reason: GroupReason): string {
  switch (reason.kind) {
    case 'loopback':
      return 'loopback';
    case 'foreign':
      return 'set by a third party';
    case 'own':
      return `no group: ${OWN_TEXTS[reason.by]}, host traffic`;
    case 'none':
      return "no group: host traffic, exemptions don't apply";
    case 'match':
      return matchText(reason);
  }
}

const OWN_TEXTS: Readonly<Record<OwnBy, string>> = {
  name: 'has the name of a host interface',
  node: "has the node's own address",
  default: 'a default route leads out by it',
  address: 'has an address of its own',
  route: 'a route to more than one address, or by a gateway, leads out by it',
  master: 'is a port of an interface that has an address or a route of its own',
};

function matchText({ match, preset }: { match: string; preset: string | null }): string {
  if (preset !== null) return `${match}: named as ${preset} does`;
  if (match === 'kind:veth') return 'kind:veth: its other end is in another namespace';
  if (match === 'kind:bridge') return 'kind:bridge: all its ports are kind:veth';
  return `name ${match}`;
}

function isForeign({ index, group }: Link, held: ReadonlyMap<number, OwnedGroup>): boolean {
  return group !== 0 && held.get(index)?.group !== group;
}

interface Around {
  readonly byIndex: ReadonlyMap<number, Link>;
  /** Ports by the index of their bridge. */
  readonly ports: ReadonlyMap<number, readonly Link[]>;
  readonly attachments: Attachments;
  /** Addresses that several pairs have. */
  readonly shared: ReadonlySet<string>;
  /** Whether a link that is no port is one of `pods`. */
  readonly isPods: (link: Link) => boolean;
  /** The masters that were looked at, by index: whether they attach the node itself. */
  readonly ownMasters: Map<number, boolean>;
}

function toAround(links: readonly Link[], attachments: Attachments, isPods: (link: Link) => boolean): Around {
  const byIndex = new Map(links.map((link) => [link.index, link]));
  const shared = sharedGateways(links, attachments);
  return { byIndex, ports: portsOf(links), attachments, shared, isPods, ownMasters: new Map() };
}

function sharedGateways(links: readonly Link[], attachments: Attachments): Set<string> {
  const seen = new Set<string>();
  const shared = new Set<string>();
  for (const link of links) {
    if (!isOutwardPair(link)) continue;
    for (const address of attachments.get(link.index)?.gateways ?? []) {
      if (seen.has(address)) shared.add(address);
      seen.add(address);
    }
  }
  return shared;
}

type Matcher = (link: Link, around: Around) => GroupReason | null;

function matcher(word: string, group: string): Matcher {
  if (word === 'kind:veth') {
    return (link, around) => (isPodPair(link, around) ? toReason(word) : null);
  }
  if (word === 'kind:bridge') return (link, around) => (isPodBridge(link, around) ? toReason(word) : null);
  if (word.startsWith('cni:')) return presetMatcher(word, group);
  const pattern = glob(word);
  return ({ name }) => (pattern.test(name) ? toReason(word) : null);
}

/** A group other than pods and clusternet gets all interfaces of a CNI. */
function presetMatcher(word: string, group: string): Matcher {
  const isWanted = (preset: Preset): boolean =>
    (word === 'cni:*' || word === `cni:${preset.cni}`) &&
    (preset.group === group || (group !== 'pods' && group !== 'clusternet'));
  const rows = PRESETS.filter(isWanted).map((preset) => ({ ...preset, patterns: preset.names.map(glob) }));
  return (link, around) => {
    const row = rows.find(
      ({ kinds, patterns }) =>
        link.kind !== null &&
        kinds.includes(link.kind) &&
        patterns.some((pattern) => pattern.test(link.name)),
    );
    if (row === undefined) return null;
    const isOwn =
      row.names.includes(link.name) || !PAIR_KINDS.includes(link.kind ?? '')
        ? isUplink(link, around)
        : ownBy(link, around) !== null;
    return isOwn ? null : toReason(word, row.cni);
  };
}

const toReason = (match: string, preset: string | null = null): GroupReason => ({
  kind: 'match',
  match,
  preset,
});

/**
 * Whether the link is one end of a pair whose other end is in another namespace, and does not
 * attach this machine itself.
 */
function isPodPair(link: Link, around: Around): boolean {
  return isOutwardPair(link) && ownBy(link, around) === null;
}

function isOutwardPair({ kind, peerNamespace }: Link): boolean {
  return kind !== null && PAIR_KINDS.includes(kind) && peerNamespace !== null;
}

/**
 * Whether all ports of the bridge are ends of such pairs, and neither they nor the bridge attach
 * this machine itself.
 */
function isPodBridge(link: Link, around: Around): boolean {
  return isOutwardBridge(link, around) && ownBy(link, around) === null;
}

function isOutwardBridge({ kind, index }: Link, around: Around): boolean {
  const found = around.ports.get(index);
  return (
    kind === 'bridge' &&
    found !== undefined &&
    found.every((port) => isPodPair({ ...port, master: null }, around))
  );
}

/**
 * How the link attaches the node itself; null: it doesn't. If the node is a container (kind, k3d,
 * LXC, nspawn), its uplink, and each further network, is a veth with the other end in another
 * namespace, like a pod's veth seen from the node. It must never be exempt.
 */
function ownBy(link: Link, around: Around): OwnBy | null {
  if (OWN_NAME.test(link.name)) return 'name';
  const { by, gateways }: LinkAttachment = around.attachments.get(link.index) ?? UNATTACHED;
  if (by !== null) return by;
  if (gateways.some((address) => !around.shared.has(address))) return 'address';
  return link.master !== null && isPortOfOwn(link.master, around) ? 'master' : null;
}

const UNATTACHED: LinkAttachment = { by: null, gateways: [] };

/** A bridge that the configuration names, or a CNI, has the gateway address of its ports. */
function isPortOfOwn(index: number, around: Around): boolean {
  const known = around.ownMasters.get(index);
  if (known !== undefined) return known;
  const found = around.byIndex.get(index);
  const master = found === undefined ? null : { ...found, master: null };
  const isOwn = master !== null && ownBy(master, around) !== null && !around.isPods(master);
  around.ownMasters.set(index, isOwn);
  return isOwn;
}

/** Interfaces that a CNI names have addresses and routes, but none of these. */
function isUplink(link: Link, { attachments }: Around): boolean {
  const by = attachments.get(link.index)?.by;
  return by === 'node' || by === 'default';
}

/**
 * Names of systemd.net-naming-scheme(7), and nspawn's host0. Does not match the veths of AWS's CNI,
 * eni and a hash: no kernel or udev name begins like that.
 */
const OWN_NAME = /^(eth\d+|en[a-hj-z]\w*|(wl|ww|ib)[a-z]*\d\w*|host0)$/;

function ownNetwork(link: Link, around: Around): GroupReason {
  const isLikePods = isOutwardPair(link) || isOutwardBridge(link, around);
  const by = isLikePods ? ownBy(link, around) : null;
  return by === null ? { kind: 'none' } : { kind: 'own', by };
}

function portsOf(links: readonly Link[]): Map<number, Link[]> {
  const ports = new Map<number, Link[]>();
  for (const link of links) {
    if (link.master === null) continue;
    const found = ports.get(link.master);
    if (found === undefined) ports.set(link.master, [link]);
    else found.push(link);
  }
  return ports;
}

/** Pattern of a glob: `*` is any number of characters, `?` one. */
function glob(word: string): RegExp {
  const source = word
    .replace(/[\\^$.+()[\]{}|]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${source}$`, 's');
}

/**
 * The names of the interfaces that CNIs create on the node. Traffic between the node and its own
 * pods passes `pods`, pods' traffic between nodes `clusternet`. An interface for both (an Open
 * vSwitch or eBPF gateway) is in `pods`, since the kubelet's probes need that.
 *
 * A row applies only to links of its kinds (IFLA_INFO_KIND). Hardware has no kind, so a name alone
 * never makes it a pod's interface.
 */
interface Preset {
  readonly cni: string;
  readonly group: 'pods' | 'clusternet';
  readonly names: readonly string[];
  readonly kinds: readonly string[];
}

/** Kinds of pairs with one end in the pod: veth, and netkit of Cilium's datapath (Linux 6.7). */
export const PAIR_KINDS: readonly string[] = ['veth', 'netkit'];

/** All rows, each with its source in the CNI's code or documentation. */
export const PRESETS: readonly Preset[] = [
  // felix/dataplane/linux/dataplanedefs, libcalico-go/…/conversion (interface prefix), felix
  // wireguard defaults.
  { cni: 'calico', group: 'pods', names: ['cali*'], kinds: ['veth'] },
  {
    cni: 'calico',
    group: 'clusternet',
    names: ['tunl0', 'vxlan.calico', 'vxlan-v6.calico', 'wireguard.cali', 'wg-v6.cali'],
    kinds: ['ipip', 'vxlan', 'wireguard'],
  },
  // flannel's CNI plugin delegates to bridge, cni0 by default; pkg/backend/{vxlan,wireguard,ipip}:
  // flannel.VNI, flannel-v6.VNI, flannel-wg, flannel-wg-v6, flannel.ipip.
  { cni: 'flannel', group: 'pods', names: ['cni0'], kinds: ['bridge'] },
  {
    cni: 'flannel',
    group: 'clusternet',
    names: ['flannel.*', 'flannel-v6.*', 'flannel-wg', 'flannel-wg-v6'],
    kinds: ['vxlan', 'wireguard', 'ipip', 'tun'],
  },
  // pkg/defaults/node.go. The node's routes to all pods, its own included, go through cilium_host.
  // The kinds exclude lxcbr0, a bridge of LXC.
  { cni: 'cilium', group: 'pods', names: ['lxc*', 'cilium_host', 'cilium_net'], kinds: PAIR_KINDS },
  {
    cni: 'cilium',
    group: 'clusternet',
    names: ['cilium_vxlan', 'cilium_geneve', 'cilium_wg0', 'cilium_ipip4', 'cilium_ipip6', 'cilium_tunl'],
    kinds: ['vxlan', 'geneve', 'wireguard', 'ipip', 'ip6tnl'],
  },
  // pkg/agent/agent.go (defaultTunInterfaceName), pkg/agent/wireguard. Open vSwitch names the
  // tunnels' kernel devices genev_sys_PORT and vxlan_sys_PORT.
  { cni: 'antrea', group: 'pods', names: ['antrea-gw0'], kinds: ['openvswitch'] },
  {
    cni: 'antrea',
    group: 'clusternet',
    names: ['antrea-tun0', 'antrea-wg0', 'genev_sys_*', 'vxlan_sys_*'],
    kinds: ['openvswitch', 'wireguard', 'geneve', 'vxlan'],
  },
  // go-controller/pkg/types (K8sMgmtIntfName): the node's port in the logical network, to pods on
  // this node and others.
  { cni: 'ovn-kubernetes', group: 'pods', names: ['ovn-k8s-mp*'], kinds: ['openvswitch'] },
  { cni: 'ovn-kubernetes', group: 'clusternet', names: ['genev_sys_*'], kinds: ['geneve'] },
  // daemonset/*.yaml ("bridge":"kube-bridge"); pkg/tunnels: tun-ADDRESS, IPIP or FoU. A VPN's tun
  // device has another kind.
  { cni: 'kube-router', group: 'pods', names: ['kube-bridge'], kinds: ['bridge'] },
  { cni: 'kube-router', group: 'clusternet', names: ['tun-*'], kinds: ['ipip', 'ip6tnl', 'sit'] },
  // `weave report`: pods are ports of the bridge weave as vethweplHASH.
  { cni: 'weave', group: 'pods', names: ['weave', 'vethwepl*'], kinds: ['bridge', 'veth'] },
  { cni: 'weave', group: 'clusternet', names: ['vxlan-6784'], kinds: ['vxlan'] },
  // AWS_VPC_K8S_CNI_VETHPREFIX; hardware ENIs on the node are ethN or ensN, without a kind.
  { cni: 'aws', group: 'pods', names: ['eni*'], kinds: ['veth'] },
  // azure-container-networking, network/endpoint_linux.go: "az" + "v" + hash.
  { cni: 'azure', group: 'pods', names: ['azv*'], kinds: ['veth'] },
  // GKE sets Calico's interfacePrefix to gke.
  { cni: 'gke', group: 'pods', names: ['gke*'], kinds: ['veth'] },
  // Oracle's OKE: FELIX_INTERFACEPREFIX=oci.
  { cni: 'oke', group: 'pods', names: ['oci*'], kinds: ['veth'] },
  // kubelet's old kubenet, and the bridge plugin in many examples. kindnet and ptp need no row:
  // kind:veth matches them.
  { cni: 'kubenet', group: 'pods', names: ['cbr0'], kinds: ['bridge'] },
  // pkg/minikube/cni/bridge.go.
  { cni: 'minikube', group: 'pods', names: ['bridge'], kinds: ['bridge'] },
  // No CNIs: the bridges of containers that Docker and Podman start. Their other networks have
  // bridges whose names could be anybody's.
  { cni: 'docker', group: 'pods', names: ['docker0'], kinds: ['bridge'] },
  { cni: 'podman', group: 'pods', names: ['podman0', 'cni-podman0'], kinds: ['bridge'] },
];

/** The valid names in `cni:NAME`, sorted. */
export const CNIS: readonly string[] = [...new Set(PRESETS.map(({ cni }) => cni))].sort();
