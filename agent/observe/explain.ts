import { type Address, parseAddress } from '../../apis/address.ts';
import type { CompiledRule, NodeState, Service } from '../../apis/compiled.ts';
import type { Config, Exemption, FailsafeEntry } from '../../apis/config.ts';
import type { Answer, Considered, Explanation, Flow, Verdict } from '../../apis/flow.ts';
import { hasMember } from '../../apis/memberset.ts';
import type { Direction } from '../../apis/objects.ts';
import { isSkippable, peerSet } from '../render/failsafe.ts';

/**
 * The verdict for one connection, and why, from the same NodeState that is rendered. It evaluates rules in order, as SEMANTICS.md section 2
 * says; it knows nothing of the index. Cost: rules of the direction, each address set looked up once a flow.
 */
export function explain(state: NodeState, config: Config): Explainer {
  const rules = Map.groupBy(state.rules, (rule) => rule.source.direction);
  const own = new Set(state.nodeAddresses.map((text) => key(parseAddress(text))));
  const failsafe = {
    ingress: config.failsafe.ingress.map((entry) => failsafeMatch(entry, state)),
    egress: config.failsafe.egress.map((entry) => failsafeMatch(entry, state)),
  };
  return (given, { considered: wanted = false } = {}) => {
    const flow = toKnown(given, config, own);
    const exemption = exemptionOf(flow, config);
    if (exemption !== null)
      return {
        ...NO_RULE,
        verdict: 'Allow',
        reason: 'exempt',
        exemption,
        ...(wanted ? { considered: [] } : {}),
      };
    const protectedFlow =
      flow.traffic === 'Host' && failsafe[flow.direction].some((matches) => matches(flow));
    return judge(rules.get(flow.direction) ?? [], flow, { state, protectedFlow, wanted });
  };
}

export type Explainer = (flow: Flow, options?: { considered?: boolean }) => Explanation;

/** A flow with text read once; undefined is unknown. */
interface KnownFlow {
  readonly direction: Direction;
  readonly traffic: 'Host' | 'NodePort';
  readonly protocol: number | undefined;
  readonly srcPort: number | undefined;
  readonly dstPort: number | undefined;
  /** ICMP, ICMPv6 or IGMP type. */
  readonly type: number | undefined;
  readonly code: number | undefined;
  readonly family: 4 | 6 | undefined;
  readonly dst: Address | undefined;
  /** The other end: source of ingress, destination of egress. */
  readonly peer: Address | undefined;
  readonly group: number | undefined;
  readonly betweenOwn: boolean;
}

const PROTOCOL_NUMBERS = { icmp: 1, igmp: 2, tcp: 6, udp: 17, icmpv6: 58, sctp: 132 } as const;

function toKnown(flow: Flow, config: Config, own: ReadonlySet<string>): KnownFlow {
  const src = address(flow.src);
  const dst = address(flow.dst);
  const { protocol, interfaceGroup: group } = flow;
  const number = typeof protocol === 'string' ? PROTOCOL_NUMBERS[protocol] : protocol;
  return {
    direction: flow.direction,
    traffic: flow.traffic ?? 'Host',
    protocol: number,
    srcPort: flow.srcPort,
    dstPort: flow.dstPort,
    type: number === PROTOCOL_NUMBERS.igmp ? flow.igmpType : flow.icmpType,
    code: flow.icmpCode,
    family: (src ?? dst)?.family,
    dst,
    peer: flow.direction === 'ingress' ? src : dst,
    group: typeof group === 'string' ? config.interfaceGroups[group] : group,
    betweenOwn: isOwn(src, own) && isOwn(dst, own),
  };
}

function address(text: string | undefined): Address | undefined {
  return text === undefined ? undefined : (parseAddress(text) ?? undefined);
}

function isOwn(one: Address | undefined, own: ReadonlySet<string>): boolean {
  if (one === undefined) return false;
  const loopback = one.family === 4 ? one.value >> 24n === 127n : one.value === 1n;
  return loopback || own.has(key(one));
}

function key(one: Address | null): string {
  return `${one?.family}/${one?.value}`;
}

const EXEMPT: Readonly<Record<Exemption, (flow: KnownFlow, config: Config) => boolean>> = {
  loopback: (flow) => flow.betweenOwn,
  neighborDiscovery: (flow) => isIcmpv6(flow, [133, 134, 135, 136]),
  multicastListener: (flow) => isIcmpv6(flow, [130, 131, 132, 143]),
  dhcpClient: (flow) => {
    const [client, server] =
      flow.direction === 'egress' ? [flow.srcPort, flow.dstPort] : [flow.dstPort, flow.srcPort];
    if (flow.protocol !== PROTOCOL_NUMBERS.udp) return false;
    return (
      (client === 68 && server === 67 && flow.family === 4) ||
      (client === 546 && server === 547 && flow.family === 6)
    );
  },
  localPods: (flow, { interfaceGroups }) =>
    flow.direction === 'egress' && flow.group !== undefined && flow.group === interfaceGroups.pods,
};

function isIcmpv6(flow: KnownFlow, types: readonly number[]): boolean {
  return (
    flow.protocol === PROTOCOL_NUMBERS.icmpv6 &&
    flow.family !== 4 &&
    flow.type !== undefined &&
    types.includes(flow.type)
  );
}

function exemptionOf(flow: KnownFlow, config: Config): Exemption | null {
  const names = Object.keys(EXEMPT) as Exemption[];
  return names.find((name) => config.exemptions[name] && EXEMPT[name](flow, config)) ?? null;
}

function failsafeMatch(entry: FailsafeEntry, state: NodeState): (flow: KnownFlow) => boolean {
  const [first, last] = entry.ports;
  const everyPort = first === 0 && last === 65535;
  const peers = peerSet(entry.peers, state);
  return ({ protocol, dstPort, peer }) =>
    protocol === PROTOCOL_NUMBERS[entry.protocol] &&
    (everyPort || (dstPort !== undefined && dstPort >= first && dstPort <= last)) &&
    (peers === null || (peer !== undefined && hasMember(peers.members, peer)));
}

const NO_RULE = { policy: null, rule: null, ruleIndex: null, tier: null, skipped: [] } as const;
const VERDICTS: Readonly<Record<CompiledRule['action'], Verdict>> = {
  Allow: 'Allow',
  Drop: 'Drop',
  Reject: 'Reject',
};

interface Circumstances {
  readonly state: NodeState;
  /** On the failsafe list. */
  readonly protectedFlow: boolean;
  readonly wanted: boolean;
}

function judge(
  rules: readonly CompiledRule[],
  flow: KnownFlow,
  { state, protectedFlow, wanted }: Circumstances,
): Explanation {
  const inSet = new Map<string, boolean>();
  const considered: Considered[] = [];
  const skipped: CompiledRule[] = [];
  let decided: CompiledRule | null = null;
  for (const rule of rules) {
    if (rule.traffic !== flow.traffic) continue;
    const mismatch = !matchesServices(rule.services, flow)
      ? 'service'
      : !matchesPeer(rule, flow, state, inSet)
        ? 'address'
        : null;
    const skip = mismatch === null && protectedFlow && isSkippable(rule);
    if (wanted) {
      const outcome = mismatch !== null ? 'no match' : skip ? 'skipped' : 'decided';
      considered.push({ ...names(rule), action: rule.action, mismatch, outcome });
    }
    if (mismatch !== null) continue;
    if (!skip) {
      decided = rule;
      break;
    }
    skipped.push(rule);
  }
  return { ...answer(decided, skipped), ...(wanted ? { considered } : {}) };
}

function answer(decided: CompiledRule | null, skipped: readonly CompiledRule[]): Answer {
  const verdict = decided === null ? 'Allow' : VERDICTS[decided.action];
  const [first] = skipped;
  const changed = first !== undefined && VERDICTS[first.action] !== verdict;
  const { policy, rule, ruleIndex, tier } = decided === null ? NO_RULE : names(decided);
  return {
    verdict,
    policy,
    rule,
    ruleIndex,
    tier,
    reason: changed ? 'failsafe' : decided === null ? 'default' : 'rule',
    skipped: skipped.map(({ source }) => ({ policy: source.policy, rule: source.rule })),
  };
}

function names({ source, tier }: CompiledRule): {
  policy: string;
  rule: string;
  ruleIndex: number;
  tier: string;
} {
  return { policy: source.policy, rule: source.rule, ruleIndex: source.ruleIndex, tier };
}

function matchesPeer(
  { addressSets: [id] }: CompiledRule,
  { peer }: KnownFlow,
  { addressSets }: NodeState,
  known: Map<string, boolean>,
): boolean {
  if (id === undefined) return true;
  if (peer === undefined) return false;
  let member = known.get(id);
  if (member === undefined) {
    const set = addressSets.get(id);
    member = set !== undefined && hasMember(set.members, peer);
    known.set(id, member);
  }
  return member;
}

function matchesServices(services: readonly Service[], flow: KnownFlow): boolean {
  if (services.length === 0) return true;
  for (const service of services) if (matchesService(service, flow)) return true;
  return false;
}

function matchesService(service: Service, flow: KnownFlow): boolean {
  if (flow.protocol !== PROTOCOL_NUMBERS[service.protocol]) return false;
  switch (service.protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp':
      return inRange(flow.dstPort, service.ports) && inRange(flow.srcPort, service.sourcePorts);
    case 'icmp':
    case 'icmpv6': {
      if (service.type === undefined) return true;
      // A type is of ICMP for IPv4 or of ICMPv6: nft's `icmp type` looks at one family alone.
      if (flow.family !== undefined && flow.family !== (service.protocol === 'icmp' ? 4 : 6)) return false;
      return flow.type === service.type && (service.code === undefined || flow.code === service.code);
    }
    case 'igmp': {
      if (service.type !== undefined && (flow.type !== service.type || flow.family === 6)) return false;
      if (service.group === undefined) return true;
      return flow.dst !== undefined && key(flow.dst) === key(parseAddress(service.group));
    }
  }
}

function inRange(port: number | undefined, range: readonly [number, number] | undefined): boolean {
  return range === undefined || (port !== undefined && port >= range[0] && port <= range[1]);
}
