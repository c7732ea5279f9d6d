import { ATOMIC_LIST, ATOMIC_OBJECT, MOST, OBJECT_NAME, presentCount } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { IP_BLOCK_SCHEMA, NAMESPACED_NAME_SCHEMA, UNSUPPORTED } from './peer.ts';
import { labelSelector } from './selector.ts';

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
      ipBlocks: {
        ...ATOMIC_LIST,
        description: 'CIDRs, OR-ed.',
        items: {
          ...IP_BLOCK_SCHEMA,
          crd: {
            cel: [
              {
                rule: '!has(self.except) || !isCIDR(self.cidr) || self.except.all(hole, isCIDR(hole) && cidr(self.cidr).containsCIDR(hole) && cidr(self.cidr).prefixLength() < cidr(hole).prefixLength())',
                message: 'an exception must be a CIDR, part of the cidr and not the whole of it',
              },
            ],
          },
        },
        crd: { maxItems: MOST.blocks },
      },
      serviceReference: {
        ...NAMESPACED_NAME_SCHEMA,
        description: 'The pods that the selector of a Service selects.',
      },
      childGroups: {
        ...ATOMIC_LIST,
        description: 'Names of ClusterGroups that have no childGroups themselves, OR-ed.',
        items: { type: 'string', crd: OBJECT_NAME },
        crd: { maxItems: MOST.children },
      },
      externalEntitySelector: UNSUPPORTED,
    },
    crd: {
      cel: [
        {
          rule:
            `${presentCount(['nodeSelector', 'serviceReference'])} + (has(self.podSelector) || has(self.namespaceSelector) ? 1 : 0) + ` +
            '(has(self.ipBlocks) && size(self.ipBlocks) > 0 ? 1 : 0) + (has(self.childGroups) && size(self.childGroups) > 0 ? 1 : 0) == 1',
          message:
            'needs exactly one of podSelector and/or namespaceSelector, nodeSelector, ipBlocks, serviceReference, childGroups',
        },
      ],
    },
  },
);
