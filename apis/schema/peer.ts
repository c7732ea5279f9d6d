import type { PeerKind } from '../objects.ts';
import type { JsonSchema } from './json-schema.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT } from './merge-type.ts';
import { labelSelector } from './selector.ts';

const any = 'x-kubernetes-preserve-unknown-fields';

export const NAMESPACED_NAME_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  required: ['name', 'namespace'],
  properties: {
    name: { type: 'string', description: 'The name of the object.' },
    namespace: { type: 'string', description: 'The namespace of the object.' },
  },
};

export const IP_BLOCK_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'A CIDR, IPv4 or IPv6, less the exceptions.',
  required: ['cidr'],
  properties: {
    cidr: { type: 'string', description: 'For example 10.0.0.0/8 or 2001:db8::/32.' },
    except: {
      ...ATOMIC_LIST,
      description: 'CIDRs inside cidr that are left out.',
      items: { type: 'string' },
    },
  },
};

export const PEER_KINDS: Readonly<Record<PeerKind, JsonSchema>> = {
  ipBlock: IP_BLOCK_SCHEMA,
  nodeSelector: labelSelector('The addresses of the Nodes selected.'),
  podSelector: labelSelector('The addresses of the pods selected, hostNetwork and finished ones left out.'),
  namespaceSelector: labelSelector('Pods in the namespaces selected.'),
  serviceAccount: { ...NAMESPACED_NAME_SCHEMA, description: 'Pods that run under this account.' },
  group: { type: 'string', description: 'Name of a ClusterGroup.' },
  fqdn: {
    type: 'string',
    description: 'Egress only: a host name; *.example.com stands for one or more labels.',
  },
  interfaceGroup: {
    description: 'The number of a link group, 0 to 4294967295, or its name in the agent configuration.',
    'x-kubernetes-int-or-string': true,
  },
};

/** A peer. Exactly one kind, except that podSelector and namespaceSelector may stand together. */
export const PEER_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one kind of peer, except that podSelector and namespaceSelector go together.',
  properties: {
    ...PEER_KINDS,
    namespaces: { ...ATOMIC_OBJECT, description: 'Not supported for Nodes.', [any]: true },
    externalEntitySelector: { ...ATOMIC_OBJECT, description: 'Not supported for Nodes.', [any]: true },
    scope: {
      type: 'string',
      description: 'Cluster; ClusterSet is not supported for Nodes.',
      enum: ['Cluster', 'ClusterSet'],
    },
  },
};

/** The Nodes that a policy or rule applies to. Exactly one of nodeSelector and group. */
export const APPLIED_TO_SCHEMA: JsonSchema = {
  ...ATOMIC_OBJECT,
  description: 'Exactly one of nodeSelector and group.',
  properties: {
    nodeSelector: labelSelector('The Nodes selected.'),
    group: { type: 'string', description: 'Name of a ClusterGroup that selects Nodes.' },
  },
};

export const SERVICE_REFERENCE_SCHEMA: JsonSchema = {
  ...NAMESPACED_NAME_SCHEMA,
  description: 'The cluster IPs and endpoints of a Service.',
  properties: {
    ...NAMESPACED_NAME_SCHEMA.properties,
    scope: {
      type: 'string',
      description: 'Cluster; ClusterSet is not supported for Nodes.',
      enum: ['Cluster', 'ClusterSet'],
    },
  },
};
