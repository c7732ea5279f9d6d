import type { NodeState, PortRange } from '../../apis/compiled.ts';
import type { FailsafeEntry } from '../../apis/config.ts';
import { failsafePeers } from '../../apis/exemptions.ts';
import type { Direction } from '../../apis/objects.ts';
import { ALL_PORTS, portCount, unionRanges } from '../../lib/net/interval.ts';
import type { Scope } from './index/match-entry.ts';
import { comment } from './nft-text.ts';
import { familiesOf } from './rule-chain.ts';
import type { SetMatches } from './rule-matches.ts';
import type { AddressField, Match, NamedSet, NftRule } from './ruleset.ts';

/**
 * Up to this many ports go into one anonymous hash set; a wider range is compared in a rule of its
 * own. So chains that change in place need no interval set.
 */
const MAX_LISTED = 64;

/** One that has ports, by name, or another one, by number. */
export type FailsafeProtocol = FailsafeEntry['protocol'];

interface FailsafeTarget {
  readonly state: NodeState;
  readonly setMatches: SetMatches;
  /** The chain that packets of the list go on with. */
  readonly to: (protocol: FailsafeProtocol) => string;
}

/** The rules that send failsafe traffic of one protocol to its own index. */
export interface FailsafeRules {
  /** The packets that `ports` can match, as alternatives. */
  readonly guards: readonly Match[];
  /** By the port: one for each list of peers and family. */
  readonly ports: readonly NftRule[];
  /** The same for packets whose destination NAT has changed. */
  readonly nat: readonly NftRule[];
  /** By the source port: answers to traffic of the other direction's list. */
  readonly answers: readonly NftRule[];
  /** The packets that may be such answers. */
  readonly mayAnswer: Match;
  readonly sets: readonly NamedSet[];
}

export const CHANGED_BY_NAT: Match = { match: 'ctDnat' };
const UNTRACKED: Match = { match: 'ctUntracked' };
/** A packet that asks for a TCP connection is no answer, whatever its source port. */
const NOT_FIRST: Match = { match: 'tcpNotFirst' };

/** The lists that the packets of a direction are compared with. */
interface FailsafeLists {
  readonly asked: readonly FailsafeEntry[];
  /** The list of the other direction, of which untracked packets may be answers. */
  readonly answered: readonly FailsafeEntry[];
}

/** The rules for each protocol of the lists. */
export function failsafeRules(
  { asked, answered }: FailsafeLists,
  direction: Direction,
  target: FailsafeTarget,
): Map<FailsafeProtocol, FailsafeRules> {
  const found = new Map<FailsafeProtocol, FailsafeRules>();
  for (const protocol of new Set([...asked, ...answered].map((entry) => entry.protocol))) {
    const own = asked.filter((entry) => entry.protocol === protocol);
    const others = answered.filter((entry) => entry.protocol === protocol);
    const { now, original, answer } = SIDES[direction];
    const [ports, nat, answers] = [
      sideRules(own, now, target),
      sideRules(own, original, target),
      sideRules(others, answer, target),
    ] as const;
    const lists = portLists(own.map((entry) => entry.ports));
    // A protocol without ports is on the lists of both directions, so that an answer is asked
    // for, too; and
    // destination NAT changes nothing of what comes in.
    const hasPorts = typeof protocol !== 'number';
    const toAnswered = hasPorts ? answers.rules : [];
    const changed = hasPorts || direction === 'egress' ? nat.rules : [];
    found.set(protocol, {
      guards: lists.map((ranges) => portMatch(protocol, ranges, now)),
      ports: ports.rules,
      nat: changed,
      ...toAnswers(protocol, direction, toAnswered),
      sets: [...ports.sets, ...nat.sets, ...answers.sets],
    });
  }
  return found;
}

/**
 * Where a packet that asks is not tracked, conntrack may still look at the answers that the node
 * sends: it calls them invalid, or takes up the connection in the middle.
 */
function toAnswers(
  protocol: FailsafeProtocol,
  direction: Direction,
  rules: readonly NftRule[],
): Pick<FailsafeRules, 'answers' | 'mayAnswer'> {
  if (protocol !== 'tcp') return { answers: rules, mayAnswer: UNTRACKED };
  if (direction === 'egress') return { answers: rules, mayAnswer: NOT_FIRST };
  const answers = rules.map((rule) => ({ ...rule, matches: [...rule.matches, NOT_FIRST] }));
  return { answers, mayAnswer: UNTRACKED };
}

/** Without chains of their own. */
export function inOneList({ ports, nat, answers, mayAnswer }: FailsafeRules): NftRule[] {
  const only = (match: Match, rules: readonly NftRule[]): NftRule[] =>
    rules.map((rule) => ({ ...rule, matches: [match, ...rule.matches] }));
  return [...ports, ...only(CHANGED_BY_NAT, nat), ...only(mayAnswer, answers)];
}

/** The rules for packets of one protocol, on one side of NAT. */
function sideRules(
  entries: readonly FailsafeEntry[],
  side: Side,
  { state, setMatches, to }: FailsafeTarget,
): { readonly rules: NftRule[]; readonly sets: NamedSet[] } {
  const rules: NftRule[] = [];
  const sets: NamedSet[] = [];
  for (const group of Map.groupBy(entries, ({ peers }) => JSON.stringify(peers)).values()) {
    const [first] = group;
    if (first === undefined) continue;
    const peers = setMatches.addresses(failsafePeers(first.peers, state), side.field, familiesOf(state));
    const ports = portLists(group.map((entry) => entry.ports));
    for (const { matches: from, set } of peers) {
      if (set !== null) sets.push(set);
      for (const ranges of ports) {
        rules.push({
          matches: [portMatch(first.protocol, ranges, side), ...from],
          counter: true,
          statement: { kind: 'goto', chain: to(first.protocol) },
          comment: comment('failsafe'),
        });
      }
    }
  }
  return { rules, sets };
}

/**
 * The other end and the port of a service: of the destination as it is, or as it was before
 * destination NAT; of an answer, of its source.
 */
interface Side {
  readonly field: AddressField;
  readonly port: 'dport' | 'sport' | 'original';
}

/**
 * A destination counts both as it is and as it was before destination NAT; the source of incoming
 * traffic is unchanged.
 */
const SIDES: Readonly<Record<Direction, Readonly<Record<'now' | 'original' | 'answer', Side>>>> = {
  ingress: {
    now: { field: 'saddr', port: 'dport' },
    original: { field: 'saddr', port: 'original' },
    answer: { field: 'saddr', port: 'sport' },
  },
  egress: {
    now: { field: 'daddr', port: 'dport' },
    original: { field: 'originalDaddr', port: 'original' },
    answer: { field: 'daddr', port: 'sport' },
  },
};

function portMatch(
  protocol: FailsafeProtocol,
  ranges: readonly PortRange[],
  { port }: Pick<Side, 'port'>,
): Match {
  if (typeof protocol === 'number' || portCount(ranges) === portCount([ALL_PORTS]))
    return { match: 'l4proto', protocols: [protocol] };
  if (port === 'original') return { match: 'originalPort', protocol, ranges };
  return { match: 'port', protocol, field: port, ranges };
}

function portLists(ports: readonly PortRange[]): PortRange[][] {
  const ranges = unionRanges(ports);
  const short = ranges.filter((range) => portCount([range]) <= MAX_LISTED);
  const single = short.flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, i): PortRange => [first + i, first + i]),
  );
  const wide = ranges.filter((range) => portCount([range]) > MAX_LISTED).map((range) => [range]);
  return single.length > 0 ? [single, ...wide] : wide;
}

/**
 * The protocols of the list, with all ports: destination NAT may have led from a port of the list
 * to any port.
 */
export function failsafeScope({ asked, answered }: FailsafeLists): Scope {
  return new Map([...asked, ...answered].map(({ protocol }) => [protocol, [ALL_PORTS]]));
}
