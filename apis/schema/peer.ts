import type { PeerKind } from '../objects.ts';
import {
  ATOMIC_LIST,
  ATOMIC_OBJECT,
  alwaysRefused,
  CIDR,
  MOST,
  NAMESPACE_NAME,
  NOT_FOR_NODES,
  OBJECT_NAME,
  presentCount,
} from './crd-keywords.ts';
import type { CrdChecks, JsonSchema } from './json-schema.ts';
import { labelSelector } from './selector.ts';

const any = 'x-kubernetes-preserve-unknown-fields';

export const NAMESPACED_NAME_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  required: ['name', 'namespace'],
  properties: {
    name: { type: 'string', description: 'The name of the object.', crd: OBJECT_NAME },
    namespace: { type: 'string', description: 'The namespace of the object.', crd: NAMESPACE_NAME },
  },
};

// An IPv6 address in its longest form (with an IPv4 part), and the prefix length.
const LENGTH: CrdChecks = { maxLength: 49 };

export const IP_BLOCK_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'A CIDR, IPv4 or IPv6, less the exceptions.',
  required: ['cidr'],
  properties: {
    cidr: {
      type: 'string',
      description: 'For example 10.0.0.0/8 or 2001:db8::/32.',
      crd: { ...LENGTH, cel: [CIDR] },
    },
    except: {
      ...ATOMIC_LIST,
      description: 'CIDRs inside cidr that are left out.',
      items: { type: 'string', crd: LENGTH },
      crd: { maxItems: MOST.except },
    },
  },
};

const HOST_LABEL = '[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?';
/** A check of `fqdn` by the field of the rule that has the peer. */
const FQDN: Readonly<Record<'from' | 'to', CrdChecks>> = {
  from: alwaysRefused('is only allowed in egress rules'),
  to: { maxLength: 256, pattern: `^(\\*\\.)?${HOST_LABEL}(\\.${HOST_LABEL})*\\.?$` },
};

const PEER_KINDS: Readonly<Record<PeerKind, JsonSchema>> = {
  ipBlock: IP_BLOCK_SCHEMA,
  nodeSelector: labelSelector('The addresses of the Nodes selected.'),
  podSelector: labelSelector('The addresses of the pods selected, hostNetwork and finished ones left out.'),
  namespaceSelector: labelSelector('Pods in the namespaces selected.'),
  serviceAccount: { ...NAMESPACED_NAME_SCHEMA, description: 'Pods that run under this account.' },
  group: { type: 'string', description: 'Name of a ClusterGroup.', crd: OBJECT_NAME },
  fqdn: {
    type: 'string',
    description: 'Egress only: a host name; *.example.com stands for one or more labels.',
  },
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

const scope: JsonSchema = {
  type: 'string',
  description: 'Cluster; ClusterSet is not supported for Nodes.',
  enum: ['Cluster', 'ClusterSet'],
  crd: { enum: ['Cluster'] },
};

/**
 * The peers of a rule. Each has exactly one kind, except that podSelector and namespaceSelector may
 * stand together.
 */
export function peers(field: 'from' | 'to', description: string): JsonSchema {
  return {
    ...ATOMIC_LIST,
    description,
    items: {
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
    crd: { maxItems: MOST.peers },
  };
}

/** The Nodes that a policy or rule applies to. Exactly one of nodeSelector and group. */
export const APPLIED_TO_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of nodeSelector and group.',
  properties: {
    nodeSelector: labelSelector('The Nodes selected.'),
    group: { type: 'string', description: 'Name of a ClusterGroup that selects Nodes.', crd: OBJECT_NAME },
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
