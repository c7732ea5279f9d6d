import { labelSelector } from '../label-selector.ts';
import type { ApiGroup, ClusterGroup, ClusterGroupSpec } from '../objects.ts';
import { ATOMIC_OBJECT, EXCEPT, kindSchema, MOST, OBJECT_NAME, presentCount } from '../schema/crd-parts.ts';
import { listField } from '../schema/fields.ts';
import { asFields, asList, type FieldMap, type JsonSchema } from '../schema/json-schema.ts';
import { checkIpBlock, toIpBlock } from './ipblock.ts';
import { checkMetadata, toIdentity } from './metadata.ts';
import { checkGroupName, checkNamespacedName } from './names.ts';
import { IP_BLOCK_SCHEMA, NAMESPACED_NAME_SCHEMA, UNSUPPORTED } from './peer.ts';
import { type Findings, hasError } from './problem.ts';
import { reportSchema } from './schema-problem.ts';
import { checkSelector, toSelector } from './selector.ts';

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
      ipBlocks: listField(
        'CIDRs, OR-ed.',
        {
          ...IP_BLOCK_SCHEMA,
          crd: { cel: [EXCEPT] },
        },
        { maxItems: MOST.blocks },
      ),
      serviceReference: {
        ...NAMESPACED_NAME_SCHEMA,
        description: 'The pods that the selector of a Service selects.',
      },
      childGroups: listField(
        'Names of ClusterGroups that have no childGroups themselves, OR-ed.',
        { type: 'string', crd: OBJECT_NAME },
        { maxItems: MOST.children },
      ),
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

const SELECTORS = ['podSelector', 'namespaceSelector', 'nodeSelector'] as const;
const LISTS: readonly string[] = ['ipBlocks', 'childGroups'];
const KINDS: readonly string[] = [...SELECTORS, 'serviceReference', ...LISTS];
const CHOICE =
  'one of podSelector and/or namespaceSelector, nodeSelector, ipBlocks, serviceReference, childGroups';

export function validateGroup(raw: FieldMap, apiGroup: ApiGroup, found: Findings): ClusterGroup | null {
  checkMetadata(raw, found);
  reportSchema(CLUSTER_GROUP_SCHEMA, raw, found);
  const spec = asFields(raw.spec);
  if (spec !== null) checkSpec(spec, found);
  if (hasError(found.problems)) return null;
  const { name } = toIdentity(raw);
  // The checks above guarantee the type.
  return { kind: 'ClusterGroup', apiGroup, name, spec: toSpec(raw.spec as ClusterGroupSpec) };
}

function checkSpec(spec: FieldMap, found: Findings): void {
  if ('externalEntitySelector' in spec) {
    found.error(['spec', 'externalEntitySelector'], 'is not supported for Nodes');
  }
  checkOneKind(spec, found);
  for (const kind of SELECTORS) checkSelector(spec[kind], ['spec', kind], found);
  for (const [index, block] of asList(spec.ipBlocks).entries()) {
    checkIpBlock(block, ['spec', 'ipBlocks', index], found);
  }
  checkNamespacedName(spec.serviceReference, 'Service', ['spec', 'serviceReference'], found);
  for (const [index, name] of asList(spec.childGroups).entries()) {
    if (typeof name === 'string') checkGroupName(name, ['spec', 'childGroups', index], found);
  }
}

/** Empty lists count as absent. */
function checkOneKind(spec: FieldMap, found: Findings): void {
  const isEmptyList = (field: string): boolean => {
    return LISTS.includes(field) && Array.isArray(spec[field]) && asList(spec[field]).length === 0;
  };
  const kinds = Object.keys(spec).filter((field) => KINDS.includes(field) && !isEmptyList(field));
  const others = kinds.filter((kind) => kind !== 'podSelector' && kind !== 'namespaceSelector');
  if (others.length + (others.length < kinds.length ? 1 : 0) > 1) {
    const message = `has ${kinds.join(' and ')}; make a group of each, and one that names them in childGroups`;
    found.error(['spec'], message);
  }
  // An unknown or unsupported field is reported already.
  const isEmpty = Object.keys(spec).every((field) => KINDS.includes(field)) && kinds.length === 0;
  if (isEmpty) found.error(['spec'], `is empty; it needs ${CHOICE}`);
}

/** Converts a spec that passed the checks to canonical form. */
function toSpec(spec: ClusterGroupSpec): ClusterGroupSpec {
  const { podSelector, namespaceSelector, nodeSelector, ipBlocks = [], childGroups = [] } = spec;
  const { serviceReference } = spec;
  if (nodeSelector !== undefined) return { nodeSelector: toSelector(nodeSelector) };
  if (ipBlocks.length > 0) return { ipBlocks: ipBlocks.map(toIpBlock) };
  if (childGroups.length > 0) return { childGroups: [...childGroups] };
  if (serviceReference !== undefined) {
    return { serviceReference: { name: serviceReference.name, namespace: serviceReference.namespace } };
  }
  return {
    ...(podSelector === undefined ? {} : { podSelector: toSelector(podSelector) }),
    ...(namespaceSelector === undefined ? {} : { namespaceSelector: toSelector(namespaceSelector) }),
  };
}
