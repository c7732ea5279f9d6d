import type { NodeState, PortRange } from '../../apis/compiled.ts';
import type { FailsafeEntry } from '../../apis/config.ts';
import { failsafePeers } from '../../apis/failsafe.ts';
import type { Direction } from '../../apis/objects.ts';
import { unionRanges } from '../../lib/net/ranges.ts';
import type { Scope } from './index/match-entry.ts';
import { comment } from './name.ts';
import { ALL_PORTS, portCount } from './ports.ts';
import { familiesOf } from './rule-chain.ts';
import type { AddressField, Match, NamedSet, NftRule, PortProtocol } from './ruleset.ts';
import type { SetMatches } from './set-matches.ts';

/**
 * Up to this many ports go into one anonymous hash set; a wider range is compared in a rule of its
 * own. So chains that change in place need no interval set.
 */
const MAX_LISTED = 64;

interface FailsafeTarget {
  readonly state: NodeState;
  readonly setMatches: SetMatches;
  /** The chain that packets of the list go on with. */
  readonly to: (protocol: PortProtocol) => string;
}

/** The rules that send failsafe traffic of one protocol to its own index. */
export interface FailsafeRules {
  /** The packets that `ports` can match, as alternatives. */
  readonly guards: readonly Match[];
  /** By the port: one for each list of peers and family. */
  readonly ports: readonly NftRule[];
  /** The same for packets whose destination NAT has changed. */
  readonly nat: readonly NftRule[];
  readonly sets: readonly NamedSet[];
}

export const CHANGED_BY_NAT: Match = { match: 'ctDnat' };

/** The rules for each protocol of the list. */
export function failsafeRules(
  entries: readonly FailsafeEntry[],
  direction: Direction,
  target: FailsafeTarget,
): Map<PortProtocol, FailsafeRules> {
  const found = new Map<PortProtocol, FailsafeRules>();
  for (const [protocol, own] of Map.groupBy(entries, (entry) => entry.protocol)) {
    const ports = sideRules(own, SIDES[direction].now, target);
    const nat = sideRules(own, SIDES[direction].original, target);
    const lists = portLists(own.map((entry) => entry.ports));
    found.set(protocol, {
      guards: lists.map((ranges) => portMatch(protocol, ranges, false)),
      ports: ports.rules,
      nat: nat.rules,
      sets: [...ports.sets, ...nat.sets],
    });
  }
  return found;
}

/** The rules for packets of one protocol, on one side of NAT. */
function sideRules(
  entries: readonly FailsafeEntry[],
  { field, isOriginal }: Side,
  { state, setMatches, to }: FailsafeTarget,
): { readonly rules: NftRule[]; readonly sets: NamedSet[] } {
  const rules: NftRule[] = [];
  const sets: NamedSet[] = [];
  for (const group of Map.groupBy(entries, ({ peers }) => JSON.stringify(peers)).values()) {
    const [first] = group;
    if (first === undefined) continue;
    const peers = setMatches.addresses(failsafePeers(first.peers, state), field, familiesOf(state));
    const ports = portLists(group.map((entry) => entry.ports));
    for (const { matches: from, set } of peers) {
      if (set !== null) sets.push(set);
      for (const ranges of ports) {
        rules.push({
          matches: [portMatch(first.protocol, ranges, isOriginal), ...from],
          counter: true,
          statement: { kind: 'goto', chain: to(first.protocol) },
          comment: comment('failsafe'),
        });
      }
    }
  }
  return { rules, sets };
}

/** A destination as it is, or as it was before destination NAT. */
interface Side {
  readonly field: AddressField;
  readonly isOriginal: boolean;
}

/**
 * A destination counts both as it is and as it was before destination NAT; the source of incoming
 * traffic is unchanged.
 */
const SIDES: Readonly<Record<Direction, { readonly now: Side; readonly original: Side }>> = {
  ingress: {
    now: { field: 'saddr', isOriginal: false },
    original: { field: 'saddr', isOriginal: true },
  },
  egress: {
    now: { field: 'daddr', isOriginal: false },
    original: { field: 'originalDaddr', isOriginal: true },
  },
};

function portMatch(protocol: PortProtocol, ranges: readonly PortRange[], isOriginal: boolean): Match {
  if (portCount(ranges) === portCount([ALL_PORTS])) return { match: 'l4proto', protocols: [protocol] };
  if (isOriginal) return { match: 'originalPort', protocol, ranges };
  return { match: 'port', protocol, field: 'dport', ranges };
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
export function failsafeScope(entries: readonly FailsafeEntry[]): Scope {
  return new Map(entries.map(({ protocol }) => [protocol, [ALL_PORTS]]));
}
