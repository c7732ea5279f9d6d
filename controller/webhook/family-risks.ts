import { isDenial } from '../../apis/compiled.ts';
import { PROTOCOL_NUMBERS } from '../../apis/flow.ts';
import { namedProtocolNumber, SKIPPED_HEADERS } from '../../apis/ip-protocols.ts';
import type {
  AppliedTo,
  ClusterNetworkPolicy,
  ClusterObjects,
  NetworkPolicyPeer,
  NetworkPolicyProtocol,
  Node,
  Rule,
} from '../../apis/objects.ts';
import { FAMILIES, type Family, familyOf as familyOfText } from '../../lib/net/address.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { directPeers, type FamilyOf, nodeSelectors } from '../compile/address-set.ts';
import { groupIndex, knownFamily } from '../index/name-index.ts';
import { allHold, canonicalRequirements } from '../index/selector.ts';
import { rulePath } from './risks.ts';

/** The Nodes with addresses of both families; null: no Node is known. */
export function dualStackNodes({ nodes }: Pick<ClusterObjects, 'nodes'>): readonly Node[] | null {
  if (nodes.length === 0) return null;
  return nodes.filter(({ addresses }) => new Set(addresses.map(familyOfText)).size === FAMILIES.length);
}

/**
 * Warns of rules whose peers are CIDRs of one family alone, on Nodes with both: other rules, or
 * none, decide about the other family. A rule of the policy that does the same for that gives no
 * warning. One warning for each direction, action and family.
 *
 * @param dual see `dualStackNodes`; where no Node is known, only rules for a whole family count
 */
export function oneFamilyWarnings(
  policy: ClusterNetworkPolicy,
  { groups }: Pick<ClusterObjects, 'groups'>,
  dual: readonly Node[] | null,
): string[] {
  const { spec, apiGroup } = policy;
  if (spec.mode === 'Audit' || dual?.length === 0) return [];
  const index = groupIndex(groups);
  const familyOf: FamilyOf = (name) => knownFamily(index, name, apiGroup);
  const peersOf = peerReader(familyOf);
  const nodeOf = memo((appliedTo: readonly AppliedTo[]) => selectedNode(appliedTo, dual ?? [], familyOf));
  return (['ingress', 'egress'] as const).flatMap((direction) => {
    const rules = (spec[direction] ?? []).map((rule) => ({ rule, peers: peersOf(rule) }));
    const covered = new Set(
      rules.flatMap(({ rule, peers }) => peers.families.map((one) => coverKey(rule, one))),
    );
    const found = rules.flatMap(({ rule, peers: { families, isWhole } }, at): OneFamily[] => {
      const [only, ...more] = families;
      if (only === undefined || more.length > 0 || isOfOneFamily(rule)) return [];
      const other = only === 4 ? 6 : 4;
      if (covered.has(coverKey(rule, other)) || covered.has(coverKey({ action: rule.action }, other)))
        return [];
      const appliedTo = spec.appliedTo?.length ? spec.appliedTo : (rule.appliedTo ?? []);
      const node = dual === null ? (isWhole ? '' : null) : nodeOf(appliedTo);
      const path = rulePath(direction, at);
      return node === null ? [] : [{ path, only, isDenied: isDenial(rule.action), node }];
    });
    return [...Map.groupBy(found, ({ only, isDenied }) => `${isDenied} ${only}`).values()].map(warningOf);
  });
}

/** Families of a rule's peers, of both if it has none, or one that is no CIDR. */
interface PeerFamilies {
  readonly families: readonly Family[];
  /** Whether they have all addresses of a family. */
  readonly isWhole: boolean;
}

/** Groups are read once, whichever rules name them. */
function peerReader(familyOf: FamilyOf): (rule: Rule) => PeerFamilies {
  const known = new Map<string, PeerFamilies>();
  const ofGroup = (name: string): PeerFamilies => {
    const found = known.get(name) ?? familiesOf(directPeers([{ group: name }], familyOf).map(ofPeer));
    known.set(name, found);
    return found;
  };
  const ofPeer = (peer: ReturnType<typeof directPeers>[number] | NetworkPolicyPeer): PeerFamilies => {
    if ('group' in peer) return ofGroup(peer.group);
    if (!('ipBlock' in peer)) return { families: FAMILIES, isWhole: false };
    const { cidr } = peer.ipBlock;
    return { families: [familyOfText(cidr)], isWhole: cidr.endsWith('/0') };
  };
  return ({ from = [], to = [] }) => {
    const peers = from.length > 0 ? from : to;
    return peers.length === 0 ? { families: FAMILIES, isWhole: false } : familiesOf(peers.map(ofPeer));
  };
}

function familiesOf(peers: readonly PeerFamilies[]): PeerFamilies {
  const families = new Set(peers.flatMap((one) => one.families));
  return {
    families: FAMILIES.filter((one) => families.has(one)),
    isWhole: peers.some(({ isWhole }) => isWhole),
  };
}

/** The same text: such an action, for the same ports and protocols, and that family. */
function coverKey({ action, ports = [], protocols = [], toServices = [] }: Rule, family: Family): string {
  return `${isDenial(action)} ${family} ${JSON.stringify([ports, protocols, toServices])}`;
}

const { icmp, igmp, icmpv6 } = PROTOCOL_NUMBERS;
const OF_ONE_FAMILY: readonly number[] = [icmp, igmp, icmpv6, ...SKIPPED_HEADERS];

/** Whether the rule's protocols exist in one family only (docs/semantics.md 1.4). */
function isOfOneFamily({ ports = [], protocols = [] }: Rule): boolean {
  return ports.length === 0 && protocols.length > 0 && protocols.every(isOneFamilyProtocol);
}

function isOneFamilyProtocol(item: NetworkPolicyProtocol): boolean {
  const { icmp, icmpv6, igmp, protocol, groupAddress } = item;
  if (protocol !== undefined)
    return groupAddress !== undefined || OF_ONE_FAMILY.includes(namedProtocolNumber(protocol) ?? -1);
  return icmpv6 !== undefined || igmp !== undefined || icmp?.icmpType !== undefined;
}

/** The name of a Node that a rule applies to; null: none of them. */
function selectedNode(
  appliedTo: readonly AppliedTo[],
  nodes: readonly Node[],
  familyOf: FamilyOf,
): string | null {
  const selectors = nodeSelectors(appliedTo, familyOf).map(canonicalRequirements);
  const isSelected = ({ labels }: Node): boolean => selectors.some((one) => allHold(one, labels));
  return nodes.find(isSelected)?.name ?? null;
}

interface OneFamily {
  readonly path: string;
  readonly only: Family;
  readonly isDenied: boolean;
  /** A Node that it applies to and that has both; '': none is known. */
  readonly node: string;
}

/** Short enough for the API server, which cuts warnings. */
function warningOf([first, ...more]: readonly OneFamily[]): string {
  if (first === undefined) return '';
  const { path, only, isDenied, node } = first;
  const [other, all] = only === 4 ? ['IPv6', '::/0'] : ['IPv4', '0.0.0.0/0'];
  const others = more.length === 0 ? '' : ` (so has each of ${more.length + 1} such rules)`;
  const effect = isDenied ? `leaves ${other} open` : `does not open ${other}`;
  const whose = node === '' ? 'where a Node has it too' : `which ${node} has too`;
  return `${path}: has peers of IPv${only} alone${others}, so it ${effect}, ${whose}; name those of ${other}, or ${all} for all`;
}
