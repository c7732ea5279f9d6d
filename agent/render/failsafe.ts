import type { AddressSet, CompiledRule, NodeState, PortRange } from '../../apis/compiled.ts';
import type { FailsafeEntry } from '../../apis/config.ts';
import type { Direction } from '../../apis/objects.ts';
import { BITS, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import type { Scope } from './index/item.ts';
import { comment } from './name.ts';
import { ALL_PORTS, portCount, unionPorts } from './ports.ts';
import { addressAlternatives, familiesOf } from './rule-chain.ts';
import type { Match, NamedSet, NftRule, PortProtocol } from './ruleset.ts';

/**
 * The failsafe list: for its traffic, a Drop or Reject rule that names neither ports nor protocols
 * is skipped. Its traffic goes to a second index, made without those rules.
 */
export function isSkippable({ action, services, serviceSets, traffic }: CompiledRule): boolean {
  const closes = action === 'Drop' || action === 'Reject';
  return closes && services.length === 0 && serviceSets.length === 0 && traffic === 'Host';
}

/**
 * Ports in one anonymous hash set up to this many; a wider range is compared, in a rule of its own:
 * no interval set in a chain that changes in place.
 */
const MAX_LISTED = 64;

/** The list with what is known of the API server's ports. */
export function failsafeList(
  entries: readonly FailsafeEntry[],
  { apiServerPorts }: Pick<NodeState, 'apiServerPorts'>,
): FailsafeEntry[] {
  return entries.flatMap((entry) => {
    if (!entry.apiServer) return entry;
    return [entry, ...apiServerPorts.map((port): FailsafeEntry => ({ ...entry, ports: [port, port] }))];
  });
}

/**
 * The rules that send failsafe traffic to `chain`: one for each protocol, list of peers and family,
 * and another for what NAT changed.
 */
export function failsafeRules(
  entries: readonly FailsafeEntry[],
  direction: Direction,
  state: NodeState,
  chain: string,
): { rules: NftRule[]; sets: NamedSet[] } {
  const rules: NftRule[] = [];
  const sets: NamedSet[] = [];
  const groups = Map.groupBy(entries, ({ protocol, peers }) => JSON.stringify([protocol, peers]));
  for (const { matches, field, isOriginal } of TARGETS[direction]) {
    for (const group of groups.values()) {
      const [first] = group;
      if (first === undefined) continue;
      const peers = addressAlternatives(peerSet(first.peers, state), field, familiesOf(state));
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
 * A destination counts as it is, and as it was before destination NAT; the source of what comes in
 * is its own.
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

/** For an AddressSet that the state doesn't have. */
const NOBODY: AddressSet = { id: '', description: '', dynamic: false, names: [], members: NO_MEMBERS };

/** The addresses of an entry; null is any. */
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
 * The protocols of the list, with every port: where NAT led from a port of the list it may be any.
 */
export function failsafeScope(entries: readonly FailsafeEntry[]): Scope {
  return new Map(entries.map(({ protocol }) => [protocol, [ALL_PORTS]]));
}
