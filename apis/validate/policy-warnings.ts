import { FAMILIES, type Family, familyOf } from '../../lib/net/address.ts';
import { isDenial } from '../compiled.ts';
import type { FailsafeEntry } from '../config.ts';
import type { ClusterNetworkPolicySpec, NetworkPolicyPeer, Rule } from '../objects.ts';
import { type FieldPath, type Findings, formatPath } from './problem.ts';
import { namedPorts } from './service.ts';

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

/** Names lists without rules: in other APIs such a list denies all. */
export function checkEmptyLists(spec: ClusterNetworkPolicySpec, found: Findings): void {
  for (const direction of ['ingress', 'egress'] as const) {
    if (spec[direction]?.length !== 0) continue;
    const message =
      'is a list without rules, which decides nothing, as if it were absent; to deny all write the rule {action: Drop}';
    found.notice(['spec', direction], message, { perKind: true });
  }
}

const SSH = 22;

/**
 * Warns if a policy's blanket Drop or Reject closes SSH for all peers, or for those of one family:
 * the rule names no ports or protocols and matches any address, no earlier rule of the policy
 * allows or passes SSH, and the failsafe list does not cover it.
 */
export function checkSsh(
  spec: ClusterNetworkPolicySpec,
  failsafe: readonly FailsafeEntry[],
  found: Findings,
): void {
  // Neither kind of policy decides about connections to port 22 of the Node itself.
  if (spec.mode === 'Audit' || spec.traffic === 'NodePort') return;
  if (
    failsafe.some(({ protocol, ports: [first, last] }) => protocol === 'tcp' && first <= SSH && SSH <= last)
  )
    return;
  let open: readonly Family[] = FAMILIES;
  for (const [index, rule] of (spec.ingress ?? []).entries()) {
    if (allowsSsh(rule) || open.length === 0) return;
    const blanket = blanketFamilies(rule);
    const closed = open.filter((family) => blanket.includes(family));
    if (closed.length === 0) continue;
    const over = closed.length === FAMILIES.length ? '' : ` over IPv${closed.join()}`;
    found.warning(
      ['spec', 'ingress', index],
      `closes SSH (TCP port 22)${over} too; to keep it open add {protocol: TCP, port: 22, peers: [your CIDRs]} to failsafe.ingress ` +
        'of the configuration, or allow it in a rule before this one',
    );
    open = open.filter((family) => !closed.includes(family));
  }
}

/** The families that a rule denies as a whole. */
function blanketFamilies(rule: Rule): readonly Family[] {
  if (!isDenial(rule.action) || !namesNoService(rule)) return [];
  return (rule.from ?? [{}]).flatMap((peer) => {
    if (!('ipBlock' in peer)) return Object.keys(peer).length === 0 ? FAMILIES : [];
    const { cidr } = peer.ipBlock;
    return cidr.endsWith('/0') ? familyOf(cidr) : [];
  });
}

function allowsSsh(rule: Rule): boolean {
  if (rule.action !== 'Allow' && rule.action !== 'Pass') return false;
  if (namesNoService(rule)) return true;
  return namedPorts(rule).some(({ protocol = 'TCP', port, endPort = port }) => {
    return protocol === 'TCP' && (port ?? 1) <= SSH && SSH <= (endPort ?? 65535);
  });
}

function namesNoService(rule: Rule): boolean {
  return (rule.ports ?? []).length === 0 && (rule.protocols ?? []).length === 0;
}
