import type { NodeState } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import { failsafeList } from '../../apis/exemptions.ts';
import type { Flow } from '../../apis/flow.ts';
import type { Direction } from '../../apis/objects.ts';
import { BITS, FAMILIES, type Family, parseAddress, WIDTH } from '../../lib/net/address.ts';
import { failsafeRules, inOneList } from './failsafe.ts';
import { comment } from './nft-text.ts';
import type { SetMatches } from './rule-matches.ts';
import {
  type Match,
  type NamedSet,
  type NftRule,
  plainRule,
  type Ruleset,
  type SetMembers,
} from './ruleset.ts';

/**
 * The deadline of a trial: sets of one element, which the kernel deletes when nobody renews it
 * (agent/apply/deadline.ts). From then on rules before those of policies accept the failsafe list
 * and what the trial's probes need, so that somebody can start the agent again.
 */
export const DEADLINE_SETS: Readonly<Record<Family, string>> = {
  4: 'trial-deadline-v4',
  6: 'trial-deadline-v6',
};

/** The address of all zeros. */
const MEMBERS: Readonly<Record<Family, SetMembers>> = {
  4: { singles: new Uint8Array(WIDTH[4]), prefixes: [] },
  6: { singles: new Uint8Array(WIDTH[6]), prefixes: [] },
};

function deadlineSet(family: Family, timeout: number): NamedSet {
  return {
    name: DEADLINE_SETS[family],
    family,
    key: 'address',
    interval: false,
    members: MEMBERS[family],
    comment: 'while the agent watches rules that are tried',
    timed: true,
    timeout,
  };
}

/** Milliseconds until the deadline of this ruleset, from when it is renewed; null: it has none. */
export function deadlineOf({ sets }: Pick<Ruleset, 'sets'>): number | null {
  return sets.get(DEADLINE_SETS[4])?.timeout ?? null;
}

interface DeadlineContext {
  readonly state: NodeState;
  readonly config: Config;
  readonly setMatches: SetMatches;
}

/** The rules of one base chain, and the sets that they name; none while nothing is tried. */
export function deadlineRules(
  direction: Direction,
  { state, config, setMatches }: DeadlineContext,
): { readonly rules: readonly NftRule[]; readonly sets: readonly NamedSet[] } {
  const { deadline } = state;
  if (deadline === undefined) return { rules: [], sets: [] };
  const lists = {
    ingress: failsafeList(config, 'ingress', state),
    egress: [...failsafeList(config, 'egress', state), ...deadline.entries, ...outward(deadline.flows)],
  };
  const answered = lists[direction === 'ingress' ? 'egress' : 'ingress'];
  const to = (): string => '';
  const listed = [
    ...failsafeRules({ asked: lists[direction], answered }, direction, { state, setMatches, to }).values(),
  ];
  const accepted = [
    ...listed.flatMap(inOneList).map(({ matches }) => matches),
    ...deadline.flows.filter((flow) => flow.direction === direction).flatMap(flowMatches),
  ];
  return {
    rules: FAMILIES.flatMap((family) => {
      const past: Match = { match: 'pastDeadline', family, set: DEADLINE_SETS[family] };
      return unique(accepted.filter((matches) => isPossible(matches, family))).map((matches) => ({
        ...plainRule({ kind: 'accept' }, past, ...matches),
        comment: comment('failsafe past the deadline of a trial'),
      }));
    }),
    sets: [
      ...FAMILIES.map((family) => deadlineSet(family, deadline.milliseconds)),
      ...listed.flatMap(({ sets }) => sets),
    ],
  };
}

function isPossible(matches: readonly Match[], family: Family): boolean {
  return matches.every((match) => !('family' in match) || match.family === family);
}

/** Probes share flows, as of one server. */
function unique(all: readonly (readonly Match[])[]): (readonly Match[])[] {
  const text = (matches: readonly Match[]): string =>
    JSON.stringify(matches, (_, value) => (typeof value === 'bigint' ? `${value}` : value));
  return [...new Map(all.map((matches) => [text(matches), matches])).values()];
}

interface OutwardFlow extends Flow {
  readonly dst: string;
  readonly protocol: 'tcp' | 'udp';
  readonly dstPort: number;
}

function isOutward(flow: Flow): flow is OutwardFlow {
  const { direction, dst, protocol, dstPort } = flow;
  const hasPort = (protocol === 'tcp' || protocol === 'udp') && dstPort !== undefined;
  return direction === 'egress' && dst !== undefined && hasPort;
}

/** Connections to a port, as entries: of many servers these are one set. */
function outward(flows: readonly Flow[]): FailsafeEntry[] {
  const byPort = Map.groupBy(flows.filter(isOutward), ({ protocol, dstPort }) => `${protocol} ${dstPort}`);
  return [...byPort.values()].flatMap((group): FailsafeEntry[] => {
    const [first] = group;
    if (first === undefined) return [];
    const { protocol, dstPort } = first;
    const peers = [...new Set(group.map(({ dst }) => dst))].sort();
    return [{ protocol, ports: [dstPort, dstPort], peers }];
  });
}

/** Connections to this node, and echo requests; none of a flow without an end or a port. */
function flowMatches({ direction, src, dst, protocol, dstPort, icmpType }: Flow): Match[][] {
  const peer = parseAddress((direction === 'ingress' ? src : dst) ?? '');
  if (peer === null) return [];
  const { family } = peer;
  const field = direction === 'ingress' ? 'saddr' : 'daddr';
  const end: Match = { match: 'address', family, field, in: { cidr: { ...peer, length: BITS[family] } } };
  if ((protocol === 'icmp' || protocol === 'icmpv6') && icmpType !== undefined)
    return [[end, { match: 'icmp', protocol, types: [{ type: icmpType, code: null }] }]];
  if (direction === 'egress' || dstPort === undefined) return [];
  if (protocol !== 'tcp' && protocol !== 'udp') return [];
  return [[{ match: 'port', protocol, field: 'dport', ranges: [[dstPort, dstPort]] }, end]];
}
