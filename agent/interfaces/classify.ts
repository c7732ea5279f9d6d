import type { Link } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import { CNIS, PAIR_KINDS, PRESETS, type Preset } from './presets.ts';

/** A group that nodewall set on the link with this index and name. */
export interface OwnedGroup {
  readonly index: number;
  readonly name: string;
  readonly group: number;
}

export type Reason =
  | { readonly kind: 'loopback' }
  /**
   * `match` is the pattern of the configuration, `preset` the CNI that names its interfaces like
   * this.
   */
  | { readonly kind: 'match'; readonly match: string; readonly preset: string | null }
  /** A third party set its group, which is left alone. */
  | { readonly kind: 'foreign' }
  /** It looks like an interface of a pod, but attaches the node itself to a network. */
  | { readonly kind: 'own'; readonly by: 'name' | 'address' }
  | { readonly kind: 'none' };

export interface Decision {
  readonly link: Link;
  /** The group that it should be in; 0: none. */
  readonly group: number;
  readonly reason: Reason;
}

/** Information that the links themselves do not have. */
export interface Known {
  /**
   * Groups that nodewall set, by index. A link with another group than the one here is no longer
   * nodewall's.
   */
  readonly held: ReadonlyMap<number, OwnedGroup>;
  /** Names of the interfaces by which the node itself is attached (on-network.ts). */
  readonly onNetwork: ReadonlySet<string>;
}

export type Classify = (links: readonly Link[], known: Known) => Decision[];

/**
 * Decides the group of each link, in the order of the links. Groups are tried in a fixed order:
 * pods, clusternet, then the others by name.
 */
export function classifier(config: Pick<Config, 'interfaceGroups' | 'interfaceMatches'>): Classify {
  const groups = groupNames(config).map((name) => ({
    number: config.interfaceGroups[name] ?? 0,
    matchers: (config.interfaceMatches[name] ?? []).map((word) => matcher(word, name)),
  }));
  return (links, known) => {
    const around: Around = { ports: portsOf(links), onNetwork: known.onNetwork };
    return links.map((link) => {
      if (isForeign(link, known.held)) return { link, group: link.group, reason: { kind: 'foreign' } };
      if (link.isLoopback) return { link, group: 0, reason: { kind: 'loopback' } };
      for (const { number, matchers } of groups) {
        for (const match of number === 0 ? [] : matchers) {
          const reason = match(link, around);
          if (reason !== null) return { link, group: number, reason };
        }
      }
      return { link, group: 0, reason: ownNetwork(link, around) ?? { kind: 'none' } };
    });
  };
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
export function reasonText(reason: Reason): string {
  switch (reason.kind) {
    case 'loopback':
      return 'loopback';
    case 'foreign':
      return 'set by a third party';
    case 'own':
      return reason.by === 'name'
        ? 'no group: has the name of a host interface, host traffic'
        : "no group: has the node's own address, host traffic";
    case 'none':
      return "no group: host traffic, exemptions don't apply";
    case 'match':
      return matchText(reason);
  }
}

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
  /** Ports by the index of their bridge. */
  readonly ports: ReadonlyMap<number, readonly Link[]>;
  readonly onNetwork: ReadonlySet<string>;
}

type Matcher = (link: Link, around: Around) => Reason | null;

function matcher(word: string, group: string): Matcher {
  if (word === 'kind:veth') {
    return (link, { onNetwork }) => (isPodPair(link, onNetwork) ? toReason(word) : null);
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
  return (link, { onNetwork }) => {
    const row = rows.find(
      ({ kinds, patterns }) =>
        link.kind !== null &&
        kinds.includes(link.kind) &&
        patterns.some((pattern) => pattern.test(link.name)),
    );
    if (row === undefined || (PAIR_KINDS.includes(link.kind ?? '') && isOwn(link, onNetwork))) return null;
    return toReason(word, row.cni);
  };
}

const toReason = (match: string, preset: string | null = null): Reason => ({ kind: 'match', match, preset });

/**
 * Whether the link is one end of a pair whose other end is in another namespace, and does not
 * attach this machine itself.
 */
function isPodPair(link: Link, onNetwork: ReadonlySet<string>): boolean {
  return isOutwardPair(link) && !isOwn(link, onNetwork);
}

function isOutwardPair({ kind, peerNamespace }: Link): boolean {
  return kind !== null && PAIR_KINDS.includes(kind) && peerNamespace !== null;
}

/**
 * Whether all ports of the bridge are ends of such pairs, and neither they nor the bridge attach
 * this machine itself.
 */
function isPodBridge(link: Link, around: Around): boolean {
  return isOutwardBridge(link, around) && !isOwn(link, around.onNetwork);
}

function isOutwardBridge({ kind, index }: Link, { ports, onNetwork }: Around): boolean {
  const found = ports.get(index);
  return kind === 'bridge' && found !== undefined && found.every((port) => isPodPair(port, onNetwork));
}

/**
 * Whether the link attaches the node itself. If the node is a container (kind, k3d, LXC, nspawn),
 * its uplink is a veth with the other end in another namespace, like a pod's veth seen from the
 * node. It must never be exempt. It is recognized by a machine's interface name (eth0, enp5s0;
 * nspawn: host0) or by an address of the Node object.
 */
function isOwn(link: Link, onNetwork: ReadonlySet<string>): boolean {
  return OWN_NAME.test(link.name) || onNetwork.has(link.name);
}

/**
 * Names of systemd.net-naming-scheme(7). Does not match the veths of AWS's CNI, eni and a hash: no
 * kernel or udev name begins like that.
 */
const OWN_NAME = /^(eth\d+|en[a-hj-z]\w*|(wl|ww|ib)[a-z]*\d\w*|host0)$/;

function ownNetwork(link: Link, around: Around): Reason | null {
  if (!isOutwardPair(link) && !isOutwardBridge(link, around)) return null;
  if (OWN_NAME.test(link.name)) return { kind: 'own', by: 'name' };
  return around.onNetwork.has(link.name) ? { kind: 'own', by: 'address' } : null;
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
