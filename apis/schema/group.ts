import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT } from './merge-type.ts';
import { IP_BLOCK_SCHEMA, NAMESPACED_NAME_SCHEMA } from './peer.ts';
import { labelSelector } from './selector.ts';

const any = 'x-kubernetes-preserve-unknown-fields';

export const CLUSTER_GROUP_SCHEMA: JsonSchema = kindSchema(
  'Peers, or Nodes, under a name that policies use.',
  {
    // Atomic, because a group has one kind of member: a merge of two managers' halves would be a
    // group that neither asked for, or an invalid one.
    ...ATOMIC_OBJECT,
    description: 'Exactly one kind of member, except that podSelector and namespaceSelector go together.',
    properties: {
      podSelector: labelSelector('The pods selected, hostNetwork and finished ones left out.'),
      namespaceSelector: labelSelector('Pods in the namespaces selected.'),
      nodeSelector: labelSelector('The Nodes selected.'),
      ipBlocks: { ...ATOMIC_LIST, description: 'CIDRs, OR-ed.', items: IP_BLOCK_SCHEMA },
      serviceReference: {
        ...NAMESPACED_NAME_SCHEMA,
        description: 'The pods that the selector of a Service selects.',
      },
      childGroups: {
        ...ATOMIC_LIST,
        description: 'Names of ClusterGroups that have no childGroups themselves, OR-ed.',
        items: { type: 'string' },
      },
      externalEntitySelector: { ...ATOMIC_OBJECT, description: 'Not supported for Nodes.', [any]: true },
    },
  },
);
