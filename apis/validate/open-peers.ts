import type { ClusterNetworkPolicySpec, NetworkPolicyPeer } from '../objects.ts';
import { type FieldPath, type Findings, formatPath } from './problem.ts';

/**
 * Warns of the peers of Allow rules that others than the administrator can join: pods by their
 * labels in any namespace, and names behind a wildcard where any DNS server is believed. One
 * warning for each kind, at the first such peer.
 */
export function checkOpenPeers(
  spec: ClusterNetworkPolicySpec,
  believesAnyServer: boolean,
  found: Findings,
): void {
  if (spec.mode === 'Audit') return;
  const labelled = placesOf(spec, (peer) => 'podSelector' in peer && peer.namespaceSelector === undefined);
  warn(
    labelled,
    (others) =>
      `allows pods with these labels in every namespace${others}, so whoever may create pods in any namespace can use the ` +
      'rule; name the namespaces with namespaceSelector, or write namespaceSelector: {} if every tenant is meant',
    found,
  );
  if (!believesAnyServer) return;
  const wildcards = placesOf(spec, (peer) => 'fqdn' in peer && peer.fqdn.startsWith('*.'));
  warn(
    wildcards,
    (others) =>
      `any DNS server may say which addresses these names have${others}, so any process on the node that may ask a server of ` +
      'its choice can open an address; take the prefix of length 0 out of names.learnFrom of the configuration',
    found,
  );
}

function placesOf(spec: ClusterNetworkPolicySpec, isOpen: (peer: NetworkPolicyPeer) => boolean): FieldPath[] {
  return (['ingress', 'egress'] as const).flatMap((direction) =>
    (spec[direction] ?? []).flatMap((rule, index) => {
      if (rule.action !== 'Allow') return [];
      const field = direction === 'ingress' ? 'from' : 'to';
      return (rule[field] ?? []).flatMap((peer, at): FieldPath[] =>
        isOpen(peer) ? [['spec', direction, index, field, at]] : [],
      );
    }),
  );
}

const MOST_SHOWN = 5;

function warn(
  [first, ...more]: readonly FieldPath[],
  message: (others: string) => string,
  found: Findings,
): void {
  if (first === undefined) return;
  const shown = more.slice(0, MOST_SHOWN - 1).map(formatPath);
  const rest = more.length - shown.length;
  const others =
    more.length === 0 ? '' : ` (so do ${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''})`;
  found.warning(first, message(others));
}
