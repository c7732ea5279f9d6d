import type { AddressSet, CompiledRule, NodeState, PortRange } from '../../apis/compiled.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { Direction } from '../../apis/objects.ts';
import { namesPorts } from '../../apis/rule-peer.ts';
import { BITS, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import type { Scope } from './index/match-entry.ts';
import { comment } from './name.ts';
import { ALL_PORTS, portCount, unionPorts } from './ports.ts';
import { familiesOf } from './rule-chain.ts';
import type { Match, NamedSet, NftRule, PortProtocol } from './ruleset.ts';
import type { SetMatches } from './set-matches.ts';

/**
 * Whether traffic of the failsafe list skips the rule: a Drop or Reject rule that names neither
 * ports nor protocols. That traffic goes to a second index, made without those rules.
 */
export function isSkippable(rule: CompiledRule): boolean {
  const closes = rule.action === 'Drop' || rule.action === 'Reject';
  return closes && rule.services.length === 0 && !namesPorts(rule) && rule.traffic === 'Host';
}

/**
 * Up to this many ports go into one anonymous hash set; a wider range is compared in a rule of its
 * own. So chains that change in place need no interval set.
 */
const MAX_LISTED = 64;

/**
 * The list of the configuration, with an entry for each known port of the API server, and for
 * egress the control plane as the agent reaches it.
 */
export function failsafeList(
  { failsafe }: Pick<Config, 'failsafe'>,
  direction: Direction,
  { apiServerPorts, controlPlane = [] }: Pick<NodeState, 'apiServerPorts' | 'controlPlane'>,
): FailsafeEntry[] {
  const listed = failsafe[direction].flatMap((entry) => {
    if (!entry.apiServer) return entry;
    return [entry, ...apiServerPorts.map((port): FailsafeEntry => ({ ...entry, ports: [port, port] }))];
  });
  return direction === 'egress' ? [...listed, ...controlPlane] : listed;
}

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
      const peers = setMatches.addresses(peerSet(first.peers, state), field, familiesOf(state));
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
  const ranges = unionPorts(ports);
  const short = ranges.filter((range) => portCount([range]) <= MAX_LISTED);
  const single = short.flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, i): PortRange => [first + i, first + i]),
  );
  const wide = ranges.filter((range) => portCount([range]) > MAX_LISTED).map((range) => [range]);
  return single.length > 0 ? [single, ...wide] : wide;
}

/** Stands for an AddressSet that the state doesn't have. */
const NOBODY: AddressSet = { id: '', description: '', dynamic: false, names: [], members: NO_MEMBERS };

/** The addresses of an entry; null: any address. */
export function peerSet(peers: FailsafeEntry['peers'], state: NodeState): AddressSet | null {
  if (peers === 'any') return null;
  if (peers === 'nodes') return state.addressSets.get(state.allNodes) ?? NOBODY;
  if (peers === 'controllers') return state.addressSets.get(state.controllers) ?? NOBODY;
  const blocks = peers.flatMap((text) => {
    const address = parseAddress(text);
    const cidr = parseCidr(text)?.cidr ?? (address && { ...address, length: BITS[address.family] });
    return cidr ? [{ cidr, except: [] }] : [];
  });
  const description = [...peers].sort().join('; ');
  return {
    id: shortHash(12, 'failsafe', description),
    description,
    dynamic: false,
    names: [],
    members: toMemberSet(blocks, []),
  };
}

/**
 * The protocols of the list, with all ports: destination NAT may have led from a port of the list
 * to any port.
 */
export function failsafeScope(entries: readonly FailsafeEntry[]): Scope {
  return new Map(entries.map(({ protocol }) => [protocol, [ALL_PORTS]]));
}
