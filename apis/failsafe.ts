import { BITS, parseAddress, parseCidr } from '../lib/net/address.ts';
import { NO_MEMBERS, toMemberSet } from '../lib/net/member-set.ts';
import { shortHash } from '../lib/sharing/hash.ts';
import type { AddressSet, CompiledRule, NodeState } from './compiled.ts';
import type { Config, FailsafeEntry } from './config.ts';
import { apiServerPorts } from './control-plane.ts';
import type { Direction, EndpointSlice } from './objects.ts';
import { namesPorts } from './rule-peer.ts';

/** The failsafe list as docs/semantics.md section 2 has it. */

/**
 * Whether traffic of the failsafe list skips the rule: a Drop or Reject rule that names neither
 * ports nor protocols. That traffic goes to a second index, made without those rules.
 */
export function isSkippable(rule: CompiledRule): boolean {
  const closes = rule.action === 'Drop' || rule.action === 'Reject';
  return closes && rule.services.length === 0 && !namesPorts(rule) && rule.traffic === 'Host';
}

/**
 * The list of the configuration, with an entry for each known port of the API server, and for
 * egress the control plane as the agent reaches it.
 */
export function failsafeList(
  { failsafe }: Pick<Config, 'failsafe'>,
  direction: Direction,
  { apiServerPorts, controlPlane = [] }: Pick<NodeState, 'apiServerPorts' | 'controlPlane'>,
): FailsafeEntry[] {
  const listed = withPorts(failsafe[direction], apiServerPorts);
  return direction === 'egress' ? [...listed, ...controlPlane] : listed;
}

function withPorts(entries: readonly FailsafeEntry[], ports: readonly number[]): FailsafeEntry[] {
  return entries.flatMap((entry) => {
    if (!entry.apiServer) return entry;
    return [entry, ...ports.map((port): FailsafeEntry => ({ ...entry, ports: [port, port] }))];
  });
}

/** The lists of the configuration, with an entry for each port of the API server's endpoints. */
export function withApiServer(
  { ingress, egress }: Config['failsafe'],
  slices: readonly EndpointSlice[],
): Config['failsafe'] {
  const ports = apiServerPorts(slices);
  return { ingress: withPorts(ingress, ports), egress: withPorts(egress, ports) };
}

/** Stands for an AddressSet that the state doesn't have. */
const NOBODY: AddressSet = { id: '', description: '', dynamic: false, names: [], members: NO_MEMBERS };

/** The addresses of an entry; null: any address. */
export function failsafePeers(peers: FailsafeEntry['peers'], state: NodeState): AddressSet | null {
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
