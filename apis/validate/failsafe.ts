import { type FailsafeEntry, type FailsafePeers, NAMED_PEERS } from '../config.ts';
import { asFields } from '../schema/json-schema.ts';
import { canonicalCidr, checkCidr } from './ipblock.ts';
import { type FieldPath, type Findings, show } from './problem.ts';
import { checkPort } from './service.ts';

/** An entry of the failsafe list as written in the configuration. */
export interface RawFailsafe {
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
  readonly port?: number;
  readonly endPort?: number;
  readonly peers: FailsafePeers;
}

/** Checks of an entry that the schema cannot express. */
export function checkFailsafe(raw: unknown, path: FieldPath, found: Findings): void {
  checkPort(raw, path, found);
  const { peers } = asFields(raw) ?? {};
  const at = [...path, 'peers'];
  if (peers === undefined || NAMED_PEERS.some((name) => name === peers)) return;
  if (!Array.isArray(peers)) {
    found.error(at, `must be nodes, controllers, any or a list of CIDRs, not ${show(peers)}`);
    return;
  }
  if (peers.length === 0) found.error(at, 'is empty; it must be nodes, controllers, any or a list of CIDRs');
  for (const [index, peer] of peers.entries()) {
    if (typeof peer === 'string') checkCidr(peer, [...at, index], found);
    else found.error([...at, index], `must be a CIDR, not ${show(peer)}`);
  }
}

/** Converts an entry that passed the checks. */
export function toFailsafe({ protocol = 'TCP', port, endPort, peers }: RawFailsafe): FailsafeEntry {
  return {
    protocol: ({ TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const)[protocol],
    ports: port === undefined ? [0, 65535] : [port, endPort ?? port],
    peers: typeof peers === 'string' ? peers : peers.map(canonicalCidr),
  };
}

/** The API server, from its load balancers. */
export function fromLoadBalancers(cidrs: readonly string[]): FailsafeEntry[] {
  if (cidrs.length === 0) return [];
  return [{ protocol: 'tcp', ports: [6443, 6443], peers: cidrs.map(canonicalCidr), apiServer: true }];
}
