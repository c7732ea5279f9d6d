import type { ApiGroup, Direction, NetworkPolicyPeer } from '../objects.ts';
import { asFields } from '../schema/jsonschema.ts';
import { checkIpBlock, toIpBlock } from './ipblock.ts';
import { isDnsLabel, isSubdomain } from './names.ts';
import type { FieldPath, Findings } from './problem.ts';
import { show } from './problem.ts';
import { checkSelector, toSelector } from './selector.ts';

const SUPPORTED = ['ipBlock', 'nodeSelector', 'podSelector', 'namespaceSelector', 'serviceAccount'] as const;
const NOT_YET = ['group', 'fqdn', 'interfaceGroup'] as const;
const NOT_FOR_NODES = ['namespaces', 'externalEntitySelector'] as const;
const KINDS: readonly string[] = [...SUPPORTED, ...NOT_YET, ...NOT_FOR_NODES];

const CHOICE = 'one of ipBlock, nodeSelector, podSelector and/or namespaceSelector, serviceAccount';

export function checkPeer(
  raw: unknown,
  path: FieldPath,
  { direction, apiGroup }: { readonly direction: Direction; readonly apiGroup: ApiGroup },
  found: Findings,
): void {
  const peer = asFields(raw);
  if (peer === null) return;
  const kinds = Object.keys(peer).filter((field) => KINDS.includes(field));
  // Of an unknown field the schema says enough.
  const unknown = Object.keys(peer).filter((field) => field !== 'scope' && !KINDS.includes(field));
  if (kinds.length > 0 || unknown.length === 0) checkOneKind(kinds, path, found);
  if (peer.scope === 'ClusterSet') found.error([...path, 'scope'], 'ClusterSet is not supported for Nodes');
  for (const kind of NOT_FOR_NODES) {
    if (kind in peer) found.error([...path, kind], 'is not supported for Nodes');
  }
  for (const kind of NOT_YET) {
    if (!(kind in peer)) continue;
    const at = [...path, kind];
    if (kind === 'interfaceGroup' && apiGroup !== 'nodewall.io') {
      found.error(at, `unknown field in ${apiGroup}; it belongs to nodewall.io/v1alpha1 policies`);
    } else if (kind === 'fqdn' && direction === 'ingress') {
      found.error(at, 'can only stand in egress rules');
    } else found.error(at, 'is not supported yet');
  }
  checkIpBlock(peer.ipBlock, [...path, 'ipBlock'], found);
  for (const kind of ['nodeSelector', 'podSelector', 'namespaceSelector']) {
    checkSelector(peer[kind], [...path, kind], found);
  }
  checkServiceAccount(peer.serviceAccount, [...path, 'serviceAccount'], found);
}

function checkOneKind(kinds: readonly string[], path: FieldPath, found: Findings): void {
  if (kinds.length === 0) {
    found.error(path, `is an empty peer; it needs ${CHOICE} (to match any address leave the whole list out)`);
    return;
  }
  const others = kinds.filter((kind) => kind !== 'podSelector' && kind !== 'namespaceSelector');
  const count = others.length + (others.length < kinds.length ? 1 : 0);
  if (count > 1) {
    found.error(path, `has ${kinds.join(' and ')} in one peer; write one item for each (items are OR-ed)`);
  }
}

function checkServiceAccount(raw: unknown, path: FieldPath, found: Findings): void {
  const account = asFields(raw);
  const { name, namespace } = account ?? {};
  if (typeof name === 'string' && !isSubdomain(name)) {
    found.error([...path, 'name'], `${show(name)} is no name of a ServiceAccount`);
  }
  if (typeof namespace === 'string' && !isDnsLabel(namespace)) {
    found.error([...path, 'namespace'], `${show(namespace)} is no name of a Namespace`);
  }
}

/** A peer that passed its checks. */
export function toPeer(peer: NetworkPolicyPeer): NetworkPolicyPeer {
  const { ipBlock, nodeSelector, podSelector, namespaceSelector, serviceAccount } = peer;
  if (ipBlock !== undefined) return { ipBlock: toIpBlock(ipBlock) };
  if (nodeSelector !== undefined) return { nodeSelector: toSelector(nodeSelector) };
  if (serviceAccount !== undefined) {
    return { serviceAccount: { name: serviceAccount.name, namespace: serviceAccount.namespace } };
  }
  return {
    ...(podSelector === undefined ? {} : { podSelector: toSelector(podSelector) }),
    ...(namespaceSelector === undefined ? {} : { namespaceSelector: toSelector(namespaceSelector) }),
  };
}
