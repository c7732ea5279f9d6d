import type {
  Direction,
  NetworkPolicyPeer,
  NetworkPolicyPort,
  NetworkPolicyProtocol,
  Rule,
} from '../../apis/objects.ts';
import { FAMILIES } from '../../lib/net/address.ts';
import { unionRanges } from '../../lib/net/ranges.ts';
import { utcText } from '../../lib/process/clock.ts';
import { formatName } from '../index/service-index.ts';
import { type Evidence, sumOf } from './evidence.ts';
import { foldCidrs } from './fold-cidrs.ts';
import { listed } from './listed.ts';
import type { RuleDraft } from './rule-draft.ts';
import { compareServices, hasPorts, hasTypes, type SeenService, serviceText } from './seen-service.ts';

/** Why a rule is there. */
export interface RuleEvidence {
  readonly connections: number;
  readonly live: number;
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

export interface ToRuleOptions {
  readonly direction: Direction;
  readonly maxCidrs: number;
  /** Nodes of the role. */
  readonly nodeCount: number;
}

/** The rule of a draft, without a name. */
export function toRule(draft: RuleDraft, { direction, maxCidrs, nodeCount }: ToRuleOptions): AdvisedRule {
  const services = [...draft.services].sort((a, b) => compareServices(a.service, b.service));
  const remarks: string[] = [];
  const { peers, toServices } = peersOf(draft, maxCidrs, remarks);
  const matches = toServices.length > 0 ? {} : portsOf(services.map(({ service }) => service));
  const field = direction === 'ingress' ? 'from' : 'to';
  const rare = services.filter((one) => one.nodeCount < nodeCount);
  if (rare.length > 0) remarks.push(rareText(rare, nodeCount));
  if (draft.unseen > 0)
    remarks.push(
      `joined, to have few rules: allows ${draft.unseen} pairs of peer and port that were not seen`,
    );
  if (toServices.length === 0 && Object.keys(matches).length === 0)
    remarks.push(
      `no rule can name protocol ${listed(services.map(({ service }) => serviceText(service)))}: allows all traffic of these peers`,
    );
  const sum = sumOf(services.flatMap(({ evidence }) => evidence));
  return {
    rule: {
      action: 'Allow',
      ...(peers.length === 0 ? {} : { [field]: peers }),
      ...(toServices.length === 0 ? {} : { toServices }),
      ...matches,
    },
    evidence:
      sum === null
        ? null
        : toEvidence(
            sum,
            services.flatMap(({ evidence }) => evidence),
            remarks,
          ),
  };
}

/** A short name for the services of a draft: `tcp-22`, `tcp-80-and-3-more`. */
export function ruleName({ services, peers }: RuleDraft): string {
  const isOfServices = [...peers.values()].some(({ kind }) => kind === 'service');
  if (isOfServices) return 'services';
  const [first, ...more] = services.map(({ service }) => service).sort(compareServices);
  if (first === undefined) return 'rule';
  const name = serviceText(first).replace(' ', '-');
  const own = typeof first.protocol === 'number' ? `protocol-${name}` : name;
  return more.length === 0 ? own : `${own}-and-${more.length}-more`;
}

function peersOf(
  { peers, avoid }: RuleDraft,
  most: number,
  remarks: string[],
): { readonly peers: NetworkPolicyPeer[]; readonly toServices: NonNullable<Rule['toServices']>[number][] } {
  const all = [...peers.values()];
  const selectors = all.flatMap((one) => (one.kind === 'selector' ? [one.peer] : []));
  const toServices = all.flatMap((one) => (one.kind === 'service' ? [one.service] : []));
  const families = new Set(all.flatMap((one) => (one.kind === 'any' ? [one.family] : [])));
  const given = all.flatMap((one) => (one.kind === 'block' ? [one.cidr] : []));
  const blocks = [
    ...given.filter(({ family }) => !families.has(family)),
    ...[...families].map((family) => ({ family, value: 0n, length: 0 })),
  ];
  const { blocks: folded, isWider, everything } = foldCidrs(blocks, { most, avoid });
  if (isWider && everything.length === 0)
    remarks.push(`${given.length} addresses and networks as ${folded.length}: --max-cidrs gives more`);
  if (everything.length > 0)
    remarks.push(
      `its ${given.length} peers are everywhere, so it is for every address: see whether that is meant`,
    );
  const isForAll =
    FAMILIES.every((family) => folded.some(({ cidr }) => cidr === (family === 4 ? '0.0.0.0/0' : '::/0'))) &&
    folded.every(({ except }) => except === undefined);
  if (isForAll) return { peers: [], toServices };
  toServices.sort((a, b) => (formatName(a) < formatName(b) ? -1 : 1));
  const byText = (peer: NetworkPolicyPeer): string => JSON.stringify(peer);
  selectors.sort((a, b) => (byText(a) < byText(b) ? -1 : 1));
  return { peers: [...selectors, ...folded.map((ipBlock) => ({ ipBlock }))], toServices };
}

function portsOf(services: readonly SeenService[]): Pick<Rule, 'ports' | 'protocols'> {
  const ports = (['tcp', 'udp', 'sctp'] as const).flatMap((protocol) => {
    const own = services.filter((one) => one.protocol === protocol);
    return unionRanges(own.map(({ port }) => [port ?? 0, port ?? 0])).map(
      ([port, endPort]): NetworkPolicyPort => {
        const name = protocol.toUpperCase() as 'TCP' | 'UDP' | 'SCTP';
        return { protocol: name, port, ...(endPort > port ? { endPort } : {}) };
      },
    );
  });
  const protocols = services.filter((one) => !hasPorts(one) && hasTypes(one)).map(toProtocol);
  return { ...(ports.length === 0 ? {} : { ports }), ...(protocols.length === 0 ? {} : { protocols }) };
}

function toProtocol({ protocol, type }: SeenService): NetworkPolicyProtocol {
  const number = type ?? 0;
  if (protocol === 'igmp') return { igmp: { igmpType: number } };
  return protocol === 'icmp' ? { icmp: { icmpType: number } } : { icmpv6: { icmpType: number } };
}

function rareText(
  rare: readonly { readonly service: SeenService; readonly nodeCount: number }[],
  nodeCount: number,
): string {
  const texts = rare.map((one) => `${serviceText(one.service)} on ${one.nodeCount}`);
  return `seen on some of the ${nodeCount} nodes only: ${listed(texts)}`;
}

function toEvidence(sum: Evidence, all: readonly Evidence[], remarks: readonly string[]): RuleEvidence {
  const addresses = new Set(all.flatMap((one) => [...one.addresses]));
  return {
    connections: sum.connections,
    live: sum.live,
    peers: addresses.size,
    isMore: all.some((one) => one.isCut) || [...addresses].some((text) => text.includes('/')),
    firstSeen: utcText(sum.firstSeen),
    lastSeen: utcText(sum.lastSeen),
    remarks,
  };
}
