import type { ApiGroup, Direction, NetworkPolicyPeer, PeerKind } from '../objects.ts';
import { asFields } from '../schema/json-schema.ts';
import { checkFqdn, toFqdn } from './fqdn.ts';
import { checkIpBlock, toIpBlock } from './ipblock.ts';
import { checkGroupName, checkNamespacedName } from './names.ts';
import { type FieldPath, type Findings, show } from './problem.ts';
import { checkSelector, toSelector } from './selector.ts';

/** The field of a rule that holds its peers. */
export const PEER_FIELD = { ingress: 'from', egress: 'to' } as const;

/** The place of a rule, which decides which kinds of peers it may have. */
export interface PeerPlace {
  readonly direction: Direction;
  readonly apiGroup: ApiGroup;
}

type Check = (raw: unknown, path: FieldPath, found: Findings, place: PeerPlace) => void;

const CHECKS: Readonly<Record<PeerKind, Check>> = {
  ipBlock: checkIpBlock,
  nodeSelector: checkSelector,
  podSelector: checkSelector,
  namespaceSelector: checkSelector,
  serviceAccount: (raw, path, found) => checkNamespacedName(raw, 'ServiceAccount', path, found),
  group(raw, path, found) {
    if (typeof raw === 'string') checkGroupName(raw, path, found);
  },
  fqdn(raw, path, found, { direction }) {
    if (direction === 'ingress') found.error(path, 'is only allowed in egress rules');
    else if (typeof raw === 'string') checkFqdn(raw, path, found);
  },
  interfaceGroup: checkInterfaceGroup,
};
const NOT_FOR_NODES = ['namespaces', 'externalEntitySelector'] as const;
const KINDS: readonly string[] = [...Object.keys(CHECKS), ...NOT_FOR_NODES];

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
  for (const [kind, check] of Object.entries(CHECKS)) {
    if (kind in peer) check(peer[kind], [...path, kind], found, place);
  }
}

/** Checks the form only; references.ts checks whether the configuration has the name. */
function checkInterfaceGroup(raw: unknown, path: FieldPath, found: Findings, { apiGroup }: PeerPlace): void {
  if (apiGroup !== 'nodewall.io') {
    found.error(path, `unknown field in ${apiGroup}; it belongs to nodewall.io/v1alpha1 policies`);
  } else if (typeof raw === 'number' && Number.isInteger(raw) && (raw < 0 || raw > 0xffff_ffff)) {
    found.error(path, `must be the number of a link group, 0 to 4294967295, not ${raw}`);
  } else if (typeof raw === 'string' && /^\d+$/.test(raw)) {
    found.error(path, `${show(raw)} is text, which would be a name; remove the quotes`);
  } else if (raw === '') {
    found.error(path, 'must be the number of a link group, or its name in the configuration, not ""');
  }
}

function checkOneKind(
  kinds: readonly string[],
  path: FieldPath,
  { direction, apiGroup }: PeerPlace,
  found: Findings,
): void {
  if (kinds.length === 0) {
    const isUsable = (field: string): boolean =>
      (field !== 'fqdn' || direction === 'egress') &&
      (field !== 'interfaceGroup' || apiGroup === 'nodewall.io');
    const fields = Object.keys(CHECKS).filter(isUsable).join(', ');
    const choice = fields.replace('podSelector, ', 'podSelector and/or ');
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
  if ('ipBlock' in peer) return { ipBlock: toIpBlock(peer.ipBlock) };
  if ('nodeSelector' in peer) return { nodeSelector: toSelector(peer.nodeSelector) };
  if ('serviceAccount' in peer) {
    const { name, namespace } = peer.serviceAccount;
    return { serviceAccount: { name, namespace } };
  }
  if ('group' in peer) return { group: peer.group };
  if ('fqdn' in peer) return { fqdn: toFqdn(peer.fqdn) };
  if ('interfaceGroup' in peer) return { interfaceGroup: peer.interfaceGroup };
  const { podSelector, namespaceSelector } = peer;
  return {
    ...(podSelector === undefined ? {} : { podSelector: toSelector(podSelector) }),
    ...(namespaceSelector === undefined ? {} : { namespaceSelector: toSelector(namespaceSelector) }),
  };
}
