import type { NodeState, PortRange } from '../../apis/compiled.ts';
import type { FailsafeEntry } from '../../apis/config.ts';
import { failsafePeers } from '../../apis/failsafe.ts';
import type { Direction } from '../../apis/objects.ts';
import { unionRanges } from '../../lib/net/ranges.ts';
import type { Scope } from './index/match-entry.ts';
import { comment } from './name.ts';
import { ALL_PORTS, portCount } from './ports.ts';
import { familiesOf } from './rule-chain.ts';
import type { Match, NamedSet, NftRule, PortProtocol } from './ruleset.ts';
import type { SetMatches } from './set-matches.ts';

/**
 * Up to this many ports go into one anonymous hash set; a wider range is compared in a rule of its
 * own. So chains that change in place need no interval set.
 */
const MAX_LISTED = 64;

interface FailsafeTarget {
  readonly state: NodeState;
  readonly chain: string;
  readonly setMatches: SetMatches;
}

/**
 * The rules that send failsafe traffic to `chain`: one for each protocol, list of peers and family,
 * and again for traffic that NAT has changed.
 */
export function failsafeRules(
  entries: readonly FailsafeEntry[],
  direction: Direction,
  { state, chain, setMatches }: FailsafeTarget,
): { rules: NftRule[]; sets: NamedSet[] } {
  const rules: NftRule[] = [];
  const sets: NamedSet[] = [];
  const groups = Map.groupBy(entries, ({ protocol, peers }) => JSON.stringify([protocol, peers]));
  for (const { matches, field, isOriginal } of TARGETS[direction]) {
    for (const group of groups.values()) {
      const [first] = group;
      if (first === undefined) continue;
      const peers = setMatches.addresses(failsafePeers(first.peers, state), field, familiesOf(state));
      const ports = portLists(group.map((entry) => entry.ports));
      for (const { matches: from, set } of peers) {
        if (set !== null) sets.push(set);
        for (const ranges of ports) {
          rules.push({
            matches: [...matches, portMatch(first.protocol, ranges, isOriginal), ...from],
            counter: true,
            statement: { kind: 'goto', chain },
            comment: comment('failsafe'),
          });
        }
      }
    }
  }
  return { rules, sets };
}

/**
 * A destination counts both as it is and as it was before destination NAT; the source of incoming
 * traffic is unchanged.
 */
const TARGETS = {
  ingress: [
    { matches: [], field: 'saddr', isOriginal: false },
    { matches: [{ match: 'ctDnat' }], field: 'saddr', isOriginal: true },
  ],
  egress: [
    { matches: [], field: 'daddr', isOriginal: false },
    { matches: [{ match: 'ctDnat' }], field: 'originalDaddr', isOriginal: true },
  ],
} as const;

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
