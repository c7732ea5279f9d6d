import type { ApiGroup, Direction, NetworkPolicyPeer } from '../objects.ts';
import { asFields } from '../schema/json-schema.ts';
import { checkFqdn, toFqdn } from './fqdn.ts';
import { checkIpBlock, toIpBlock } from './ipblock.ts';
import { checkGroupName, checkNamespacedName } from './names.ts';
import { type FieldPath, type Findings, show } from './problem.ts';
import { checkSelector, toSelector } from './selector.ts';

const SUPPORTED = [
  ...(['ipBlock', 'nodeSelector', 'podSelector', 'namespaceSelector', 'serviceAccount'] as const),
  ...(['group', 'fqdn', 'interfaceGroup'] as const),
];
const NOT_FOR_NODES = ['namespaces', 'externalEntitySelector'] as const;
const KINDS: readonly string[] = [...SUPPORTED, ...NOT_FOR_NODES];

/** The field of a rule that holds its peers. */
export const PEER_FIELD = { ingress: 'from', egress: 'to' } as const;

/** The place of a rule, which decides which kinds of peers it may have. */
export interface PeerPlace {
  readonly direction: Direction;
  readonly apiGroup: ApiGroup;
}

export function checkPeer(raw: unknown, path: FieldPath, place: PeerPlace, found: Findings): void {
  const peer = asFields(raw);
  if (peer === null) return;
  const kinds = Object.keys(peer).filter((field) => KINDS.includes(field));
  // The schema reports unknown fields already.
  const unknown = Object.keys(peer).filter((field) => field !== 'scope' && !KINDS.includes(field));
  if (kinds.length > 0 || unknown.length === 0) checkOneKind(kinds, path, place, found);
  if (peer.scope === 'ClusterSet') found.error([...path, 'scope'], 'ClusterSet is not supported for Nodes');
  for (const kind of NOT_FOR_NODES) {
    if (kind in peer) found.error([...path, kind], 'is not supported for Nodes');
  }
  checkIpBlock(peer.ipBlock, [...path, 'ipBlock'], found);
  for (const kind of ['nodeSelector', 'podSelector', 'namespaceSelector']) {
    checkSelector(peer[kind], [...path, kind], found);
  }
  checkNamespacedName(peer.serviceAccount, 'ServiceAccount', [...path, 'serviceAccount'], found);
  if (typeof peer.group === 'string') checkGroupName(peer.group, [...path, 'group'], found);
  if ('fqdn' in peer && place.direction === 'ingress') {
    found.error([...path, 'fqdn'], 'is only allowed in egress rules');
  } else if (typeof peer.fqdn === 'string') checkFqdn(peer.fqdn, [...path, 'fqdn'], found);
  if ('interfaceGroup' in peer) {
    checkInterfaceGroup(peer.interfaceGroup, [...path, 'interfaceGroup'], place, found);
  }
}

/** Checks the form only; references.ts checks whether the configuration has the name. */
function checkInterfaceGroup(raw: unknown, path: FieldPath, { apiGroup }: PeerPlace, found: Findings): void {
  if (apiGroup !== 'nodewall.io') {
    found.error(path, `unknown field in ${apiGroup}; it belongs to nodewall.io/v1alpha1 policies`);
  } else if (typeof raw === 'number' && Number.isInteger(raw) && (raw < 0 || raw > 0xffff_ffff)) {
    found.error(path, `must be the number of a link group, 0 to 4294967295, not ${raw}`);
  } else if (typeof raw === 'string' && /^\d+$/.test(raw)) {
    found.error(path, `${show(raw)} is text, which would be a name; remove the quotes`);
  }
}

function checkOneKind(
  kinds: readonly string[],
  path: FieldPath,
  { direction, apiGroup }: PeerPlace,
  found: Findings,
): void {
  if (kinds.length === 0) {
    const fqdn = direction === 'egress' ? ', fqdn' : '';
    const interfaceGroup = apiGroup === 'nodewall.io' ? ', interfaceGroup' : '';
    const choice = `ipBlock, nodeSelector, podSelector and/or namespaceSelector, serviceAccount, group${fqdn}${interfaceGroup}`;
    found.error(
      path,
      `is an empty peer; it needs one of ${choice} (to match any address leave the whole list out)`,
    );
    return;
  }
  const others = kinds.filter((kind) => kind !== 'podSelector' && kind !== 'namespaceSelector');
  const count = others.length + (others.length < kinds.length ? 1 : 0);
  if (count > 1) {
    found.error(path, `has ${kinds.join(' and ')} in one peer; write one item for each (items are OR-ed)`);
  }
}

/** Converts a peer that passed the checks. */
export function toPeer(peer: NetworkPolicyPeer): NetworkPolicyPeer {
  const { ipBlock, nodeSelector, podSelector, namespaceSelector, serviceAccount } = peer;
  const { group, fqdn, interfaceGroup } = peer;
  if (ipBlock !== undefined) return { ipBlock: toIpBlock(ipBlock) };
  if (nodeSelector !== undefined) return { nodeSelector: toSelector(nodeSelector) };
  if (serviceAccount !== undefined) {
    return { serviceAccount: { name: serviceAccount.name, namespace: serviceAccount.namespace } };
  }
  if (group !== undefined) return { group };
  if (fqdn !== undefined) return { fqdn: toFqdn(fqdn) };
  if (interfaceGroup !== undefined) return { interfaceGroup };
  return {
    ...(podSelector === undefined ? {} : { podSelector: toSelector(podSelector) }),
    ...(namespaceSelector === undefined ? {} : { namespaceSelector: toSelector(namespaceSelector) }),
  };
}
