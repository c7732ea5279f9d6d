import { writtenProtocol } from '../../apis/ip-protocols.ts';
import type {
  Direction,
  NetworkPolicyPeer,
  NetworkPolicyPort,
  NetworkPolicyProtocol,
  PolicyTraffic,
  Rule,
} from '../../apis/objects.ts';
import { type Address, BITS, FAMILIES, parseCidr } from '../../lib/net/address.ts';
import { unionRanges } from '../../lib/net/interval.ts';
import { utcText } from '../../lib/process/clock.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import { listed } from './review-list.ts';
import { type DraftPeer, foldCidrs } from './role-peers.ts';
import { compareServices, type Evidence, type SeenService, seenServiceText, sumOf } from './seen-service.ts';

/** The matches of a rule: ports and protocols, or none, because Services bring theirs. */
type Form = 'ports' | 'services';

/** The content of a rule: every peer may use every service. */
export interface RuleDraft {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  readonly form: Form;
  /** By key. */
  readonly peers: ReadonlyMap<string, DraftPeer>;
  /** Sorted. */
  readonly services: readonly DraftService[];
  /** Addresses of the review list, which no CIDR of the rule must cover. */
  readonly avoid: readonly Address[];
  /** Pairs of peer and service that are allowed and were not seen. */
  readonly unseen: number;
}

/** A service that a draft allows, and what was seen of it. */
interface DraftService {
  readonly service: SeenService;
  /** The evidence for the peers that the draft names. */
  readonly evidence: readonly Evidence[];
  readonly nodeCount: number;
}

/** Everything weighs as much as so many peers. */
const ANYBODY = 100;

/**
 * Joins drafts until there are at most `most`, those first that allow the fewest pairs of peer and
 * service which were not seen; where there are none of these, in any case. Keeps the order.
 * O(n²) comparisons of drafts, and O(n³) of numbers.
 */
export function joinDrafts(drafts: readonly RuleDraft[], most: number): RuleDraft[] {
  let left = [...drafts];
  const paired = (a: RuleDraft, b: RuleDraft) => (areOfOneList(a, b) ? [{ a, b, cost: costOf(a, b) }] : []);
  let pairs = left.flatMap((a, i) => left.slice(i + 1).flatMap((b) => paired(a, b)));
  for (;;) {
    const [first, ...others] = pairs;
    if (first === undefined) return left;
    const { a, b, cost } = others.reduce((least, one) => (one.cost < least.cost ? one : least), first);
    if (cost > 0 && left.length <= most) return left;
    const both = joined(a, b, cost);
    left = left.filter((one) => one !== b).map((one) => (one === a ? both : one));
    pairs = pairs.filter((pair) => ![pair.a, pair.b].some((one) => one === a || one === b));
    const at = left.indexOf(both);
    pairs.push(...left.slice(0, at).flatMap((one) => paired(one, both)));
    pairs.push(...left.slice(at + 1).flatMap((one) => paired(both, one)));
  }
}

function areOfOneList(a: RuleDraft, b: RuleDraft): boolean {
  return a.direction === b.direction && a.traffic === b.traffic && a.form === b.form;
}

/** Services bring their ports, and where no port can be named the peers are all that counts. */
function costOf(a: RuleDraft, b: RuleDraft): number {
  return a.form === 'ports' ? addedBy(a, b) + addedBy(b, a) : 0;
}

/** Pairs of the peers of `of` alone with the services of `to` alone. */
function addedBy(of: RuleDraft, to: RuleDraft): number {
  let peers = 0;
  for (const [key, peer] of of.peers) {
    if (to.peers.has(key)) continue;
    peers += 'ipBlock' in peer && peer.ipBlock?.cidr.endsWith('/0') ? ANYBODY : 1;
  }
  return peers * to.services.length;
}

function joined(a: RuleDraft, b: RuleDraft, cost: number): RuleDraft {
  return {
    ...a,
    peers: new Map([...a.peers, ...b.peers]),
    services: [...a.services, ...b.services].sort((one, other) =>
      compareServices(one.service, other.service),
    ),
    avoid: [...a.avoid, ...b.avoid],
    unseen: a.unseen + b.unseen + cost,
  };
}

/** Why a rule is there. */
interface RuleEvidence extends Readonly<Pick<Evidence, 'connections' | 'live'>> {
  /** Different addresses; `isMore`: there were more than are counted. */
  readonly peers: number;
  readonly isMore: boolean;
  /** ISO 8601, to the second. */
  readonly firstSeen: string;
  readonly lastSeen: string;
  /** Remarks on the rule for a reader. */
  readonly remarks: readonly string[];
}

export interface AdvisedRule {
  readonly rule: Rule;
  /** Null: the closing deny. */
  readonly evidence: RuleEvidence | null;
}

/**
 * The rule of a draft, with a short name for its services: `in-tcp-22`, `in-tcp-80-and-3-more`.
 *
 * @param nodeCount nodes of the role
 */
export function toAdvisedRule(draft: RuleDraft, maxCidrs: number, nodeCount: number): AdvisedRule {
  const { direction, form, unseen } = draft;
  const services = draft.services.map(({ service }) => service);
  const { remarks, peers, toServices } = peersOf(draft, maxCidrs);
  const rare = draft.services.filter((one) => one.nodeCount < nodeCount);
  const rareTexts = rare.map((one) => `${seenServiceText(one.service)} on ${one.nodeCount}`);
  if (rare.length > 0) remarks.push(`seen on some of the ${nodeCount} nodes only: ${listed(rareTexts)}`);
  if (unseen > 0)
    remarks.push(`joined, to have few rules: allows ${unseen} pairs of peer and port that were not seen`);
  const sum = sumOf(draft.services.flatMap(({ evidence }) => evidence));
  return {
    rule: {
      name: `${direction === 'ingress' ? 'in' : 'out'}-${nameOf(form, services)}`,
      action: 'Allow',
      ...present({
        [direction === 'ingress' ? 'from' : 'to']: someOf(peers),
        toServices: someOf(toServices),
      }),
      ...(form === 'ports' ? portsOf(services) : {}),
    },
    evidence: {
      connections: sum.connections,
      live: sum.live,
      peers: sum.addresses.size,
      isMore: sum.isCut || [...sum.addresses].some((text) => text.includes('/')),
      firstSeen: utcText(sum.firstSeen),
      lastSeen: utcText(sum.lastSeen),
      remarks,
    },
  };
}

function someOf<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

function nameOf(form: RuleDraft['form'], [first, ...more]: readonly SeenService[]): string {
  if (form === 'services' || first === undefined) return 'services';
  const name = seenServiceText(first).replace(' ', '-');
  const own = /^\d/.test(name) ? `protocol-${name}` : name;
  return more.length === 0 ? own : `${own}-and-${more.length}-more`;
}

function peersOf({ peers, avoid }: RuleDraft, most: number) {
  const all = [...peers].sort(([a], [b]) => compareText(a, b)).map(([, peer]) => peer);
  const toServices = all.flatMap((peer) => ('toService' in peer ? peer.toService : []));
  const given = all.flatMap((peer) =>
    'ipBlock' in peer ? (parseCidr(peer.ipBlock?.cidr ?? '')?.cidr ?? []) : [],
  );
  const selectors = all.filter(
    (peer): peer is NetworkPolicyPeer => !('toService' in peer || 'ipBlock' in peer),
  );
  // Odd for one service of the rule, good for another: it is in the rule.
  const singles = new Set(given.flatMap((cidr) => (cidr.length === BITS[cidr.family] ? [keyOf(cidr)] : [])));
  const others = avoid.filter((one) => !singles.has(keyOf(one)));
  const { blocks, isWider, everything } = foldCidrs(given, most, others);
  const remarks: string[] = [];
  if (everything.length > 0)
    remarks.push(
      `its ${given.length} peers are everywhere, so it is for every address: see whether that is meant`,
    );
  else if (isWider)
    remarks.push(`${given.length} addresses and networks as ${blocks.length}: --max-cidrs gives more`);
  const whole = blocks.filter(({ cidr, except }) => cidr.endsWith('/0') && except === undefined);
  const isForAll = whole.length === FAMILIES.length;
  const named = [...selectors, ...blocks.map((ipBlock) => ({ ipBlock }))];
  return { peers: isForAll ? [] : named, toServices, remarks };
}

function portsOf(services: readonly SeenService[]): Pick<Rule, 'ports' | 'protocols'> {
  const ports = (['tcp', 'udp', 'sctp'] as const).flatMap((protocol) => {
    const own = services.flatMap((one) => (one.protocol === protocol ? (one.port ?? []) : []));
    return unionRanges(own.map((port) => [port, port])).map(
      ([port, endPort]): NetworkPolicyPort => ({
        protocol: protocol.toUpperCase() as Uppercase<typeof protocol>,
        port,
        ...(endPort > port ? { endPort } : {}),
      }),
    );
  });
  const protocols = services.flatMap(({ protocol, type }): NetworkPolicyProtocol[] => {
    if (typeof protocol === 'number') return [{ protocol: writtenProtocol(protocol) }];
    if (type === null) return [];
    if (protocol === 'igmp') return [{ igmp: { igmpType: type } }];
    return [protocol === 'icmp' ? { icmp: { icmpType: type } } : { icmpv6: { icmpType: type } }];
  });
  return present({ ports: someOf(ports), protocols: someOf(protocols) });
}

const keyOf = ({ family, value }: Address): string => `${family} ${value}`;
