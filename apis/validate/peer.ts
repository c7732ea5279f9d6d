import { parseAddress } from '../../lib/net/address.ts';
import { labelSelector } from '../label-selector.ts';
import type { ApiGroup, Direction, NetworkPolicyPeer, PeerKind } from '../objects.ts';
import {
  ATOMIC_OBJECT,
  alwaysRefused,
  CIDR,
  EXCEPT,
  MOST,
  NAMESPACE_NAME,
  NOT_FOR_NODES,
  OBJECT_NAME,
  presentCount,
} from '../schema/crd-parts.ts';
import { listField, objectField, textField } from '../schema/fields.ts';
import { asFields, type CrdChecks, type JsonSchema } from '../schema/json-schema.ts';
import { checkIpBlock, toIpBlock } from './ipblock.ts';
import { checkGroupName, checkNamespacedName } from './names.ts';
import { type FieldPath, type Findings, show } from './problem.ts';
import { checkSelector, toSelector } from './selector.ts';

const any = 'x-kubernetes-preserve-unknown-fields';

export const NAMESPACED_NAME_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  required: ['name', 'namespace'],
  properties: {
    name: textField('The name of the object.', { crd: OBJECT_NAME }),
    namespace: textField('The namespace of the object.', { crd: NAMESPACE_NAME }),
  },
};

// An IPv6 address in its longest form (with an IPv4 part), and the prefix length.
const LENGTH: CrdChecks = { maxLength: 49 };

export const IP_BLOCK_SCHEMA: JsonSchema = {
  ...objectField('A CIDR, IPv4 or IPv6, less the exceptions.', ['cidr'], {
    cidr: textField('For example 10.0.0.0/8 or 2001:db8::/32.', { crd: { ...LENGTH, cel: [CIDR] } }),
    except: listField(
      'CIDRs inside cidr that are left out.',
      { type: 'string', crd: LENGTH },
      { maxItems: MOST.except },
    ),
  }),
  crd: { admission: [EXCEPT] },
};

const HOST_LABEL = '[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?';
/** A check of `fqdn` by the field of the rule that has the peer. */
const FQDN: Readonly<Record<'from' | 'to', CrdChecks>> = {
  from: alwaysRefused('is only allowed in egress rules'),
  to: {
    maxLength: 256,
    pattern: `^(\\*\\.)?${HOST_LABEL}(\\.${HOST_LABEL})*\\.?$`,
    admission: [
      {
        rule: "!self.matches('^([*][.])?[0-9.]+$') && self.matches('^([*][.])?.{1,253}[.]?$')",
        message: 'is no name of at most 253 characters; for an address write ipBlock',
      },
    ],
  },
};

const PEER_KINDS: Readonly<Record<PeerKind, JsonSchema>> = {
  ipBlock: IP_BLOCK_SCHEMA,
  nodeSelector: labelSelector('The addresses of the Nodes selected.'),
  podSelector: labelSelector('The addresses of the pods selected, hostNetwork and finished ones left out.'),
  namespaceSelector: labelSelector('Pods in the namespaces selected.'),
  serviceAccount: { ...NAMESPACED_NAME_SCHEMA, description: 'Pods that run under this account.' },
  group: textField('Name of a ClusterGroup.', { crd: OBJECT_NAME }),
  fqdn: textField('Egress only: a host name; *.example.com stands for one or more labels.'),
  interfaceGroup: {
    description: 'The number of a link group, 0 to 4294967295, or its name in the agent configuration.',
    'x-kubernetes-int-or-string': true,
    // A number in quotes is not accepted as a name.
    crd: { minimum: 0, maximum: 4_294_967_295, maxLength: 63, pattern: '[^0-9]' },
  },
};
const { podSelector: _, namespaceSelector: __, ...SINGLE } = PEER_KINDS;

/** Any object, and an error. */
export const UNSUPPORTED: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Not supported for Nodes.',
  [any]: true,
  crd: NOT_FOR_NODES,
};

const scope: JsonSchema = textField('Cluster; ClusterSet is not supported for Nodes.', {
  enum: ['Cluster', 'ClusterSet'],
  crd: { enum: ['Cluster'] },
});

/**
 * The peers of a rule. Each has exactly one kind, except that podSelector and namespaceSelector may
 * stand together.
 */
export function peers(field: 'from' | 'to', description: string): JsonSchema {
  return listField(
    description,
    {
      ...ATOMIC_OBJECT,
      description: 'Exactly one kind of peer, except that podSelector and namespaceSelector go together.',
      properties: {
        ...PEER_KINDS,
        fqdn: { ...PEER_KINDS.fqdn, crd: FQDN[field] },
        namespaces: UNSUPPORTED,
        externalEntitySelector: UNSUPPORTED,
        scope,
      },
      crd: {
        cel: [
          {
            rule: `${presentCount(Object.keys(SINGLE))} + (has(self.podSelector) || has(self.namespaceSelector) ? 1 : 0) == 1`,
            message:
              'needs exactly one kind of peer (podSelector and namespaceSelector go together); write one item for each (items are OR-ed)',
          },
        ],
      },
    },
    { maxItems: MOST.peers },
  );
}

/** The Nodes that a policy or rule applies to. Exactly one of nodeSelector and group. */
export const APPLIED_TO_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of nodeSelector and group.',
  properties: {
    nodeSelector: labelSelector('The Nodes selected.'),
    group: textField('Name of a ClusterGroup that selects Nodes.', { crd: OBJECT_NAME }),
  },
  crd: {
    cel: [
      {
        rule: 'has(self.nodeSelector) != has(self.group)',
        message: 'needs exactly one of nodeSelector and group; write one item for each (items are OR-ed)',
      },
    ],
  },
};

export const SERVICE_REFERENCE_SCHEMA: JsonSchema = {
  ...NAMESPACED_NAME_SCHEMA,
  description: 'The cluster IPs and endpoints of a Service.',
  properties: {
    ...NAMESPACED_NAME_SCHEMA.properties,
    scope,
  },
};

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
const UNSUPPORTED_KINDS = ['namespaces', 'externalEntitySelector'] as const;
const KINDS: readonly string[] = [...Object.keys(CHECKS), ...UNSUPPORTED_KINDS];

export function checkPeer(raw: unknown, path: FieldPath, place: PeerPlace, found: Findings): void {
  const peer = asFields(raw);
  if (peer === null) return;
  const kinds = Object.keys(peer).filter((field) => KINDS.includes(field));
  // The schema reports unknown fields already.
  const unknown = Object.keys(peer).filter((field) => field !== 'scope' && !KINDS.includes(field));
  if (kinds.length > 0 || unknown.length === 0) checkOneKind(kinds, path, place, found);
  if (peer.scope === 'ClusterSet') found.error([...path, 'scope'], 'ClusterSet is not supported for Nodes');
  for (const kind of UNSUPPORTED_KINDS) {
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

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

const FORM =
  'labels of letters, digits and "-", at most 63 characters each and 253 in all, with dots between them, as in www.example.com';

/** Accepts a host name, or `*.` and a host name. */
export function checkFqdn(raw: string, path: FieldPath, found: Findings): void {
  const text = toFqdn(raw);
  const name = text.startsWith('*.') ? text.slice(2) : text;
  if (text === '*') {
    found.error(path, '"*" stands for any name; to match any address leave the whole list out');
  } else if (name.includes('*')) {
    const end = /^[^*]*\*+\.?([a-z0-9-]+(\.[a-z0-9-]+)+)$/.exec(text)?.[1] ?? 'example.com';
    const message = `${show(raw)}: "*" can only be the whole first label, once, as in *.${end}`;
    found.error(path, message);
  } else if (parseAddress(name) !== null) {
    const cidr = `${name}/${name.includes(':') ? 128 : 32}`;
    found.error(path, `${show(raw)} is an address, not a name; write ipBlock: {cidr: "${cidr}"}`);
  } else if (/^[\d.]+(\/\d+)?$/.test(name)) {
    found.error(path, `${show(raw)} has digits only, so it is neither a name nor an address`);
  } else if (/[^\x20-\x7e]/.test(name)) {
    found.error(path, `${show(raw)} is not a valid DNS name; write other letters in xn-- form: ${FORM}`);
  } else if (name.length > 253 || !name.split('.').every((label) => LABEL.test(label))) {
    found.error(path, `${show(raw)} is not a valid DNS name: ${FORM}`);
  }
}

/** In lower case, without a trailing dot. */
export function toFqdn(text: string): string {
  return text.toLowerCase().replace(/\.$/, '');
}
