import { GUARDRAIL_PHASES } from '../guardrail.ts';
import { count } from './conditions.ts';
import { ATOMIC_LIST, ATOMIC_OBJECT, GRANULAR_OBJECT, MOST } from './crd-keywords.ts';
import type { JsonSchema } from './json-schema.ts';
import { kindSchema } from './kind.ts';
import { LAST_DEFINITIONS_SCHEMA } from './last-definitions.ts';
import { peers } from './peer.ts';
import { labelSelector } from './selector.ts';
import { SERVICE_FIELDS } from './service.ts';

const flows = (description: string): JsonSchema => ({
  ...ATOMIC_LIST,
  description,
  items: {
    ...ATOMIC_OBJECT,
    description: 'Flows: every value of what is not named.',
    required: ['direction'],
    properties: {
      name: {
        type: 'string',
        description: 'Unique in the Guardrail.',
        maxLength: 253,
        pattern: '^[^\\p{Cc}\\p{Zl}\\p{Zp}]*$',
      },
      direction: { type: 'string', description: 'As the Node sees it.', enum: ['ingress', 'egress'] },
      from: peers('from', 'Ingress only: sources, OR-ed; absent or empty is any address.'),
      to: peers('to', 'Egress only: destinations, OR-ed; absent or empty is any address.'),
      ...SERVICE_FIELDS,
      traffic: {
        type: 'string',
        description:
          'Host, the default: connections of the Node itself. NodePort: as in policies; ingress only.',
        enum: ['Host', 'NodePort'],
      },
    },
    crd: {
      cel: [
        {
          rule: 'self.direction == "ingress" ? !has(self.to) || size(self.to) == 0 : !has(self.from) || size(self.from) == 0',
          message: 'ingress flows have from, egress flows have to',
        },
        {
          rule: '!has(self.traffic) || self.traffic != "NodePort" || self.direction == "ingress"',
          message: 'NodePort traffic is ingress',
        },
      ],
    },
  },
  crd: { maxItems: MOST.required },
});

export const GUARDRAIL_SCHEMA: JsonSchema = kindSchema(
  'Connections that must stay allowed, or denied, whatever the policies are.',
  {
    ...GRANULAR_OBJECT,
    description: 'The Nodes, and the flows that must have a verdict there.',
    required: ['nodeSelector'],
    properties: {
      nodeSelector: labelSelector('The Nodes on which it must hold.'),
      mustAllow: flows('Flows that must be allowed.'),
      mustDeny: flows('Flows that must be dropped or rejected.'),
    },
  },
);

/** Schema of the `status` of a Guardrail (`GuardrailStatus`). */
export const GUARDRAIL_STATUS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The state of the Guardrail, as the controller last observed it.',
  properties: {
    phase: {
      type: 'string',
      enum: [...GUARDRAIL_PHASES],
      description:
        'Holds: every flow has its verdict on every selected Node. Broken: see violations. Pending: it names what does not exist yet, see problems.',
    },
    observedGeneration: count('The metadata.generation that this status is about.'),
    problems: {
      ...ATOMIC_LIST,
      description: 'The missing objects that it names, one line each: it waits for them while it is Pending.',
      items: { type: 'string' },
      crd: { maxItems: 20 },
    },
    lastDefinitions: LAST_DEFINITIONS_SCHEMA,
    violations: {
      ...ATOMIC_LIST,
      description: 'One flow for each Node and item that is broken; the first 20.',
      items: {
        ...ATOMIC_OBJECT,
        required: ['node', 'item', 'flow'],
        properties: {
          node: { type: 'string', description: 'Name of the Node.' },
          item: { type: 'string', description: 'As in mustAllow[0].' },
          flow: {
            ...ATOMIC_OBJECT,
            description: 'The flow, as nodewall explain takes it.',
            'x-kubernetes-preserve-unknown-fields': true,
          },
          rule: {
            ...ATOMIC_OBJECT,
            description: 'The rule that decides; absent: none does.',
            required: ['policy', 'rule', 'ruleIndex'],
            properties: {
              policy: { type: 'string', description: 'Name of the policy.' },
              rule: { type: 'string', description: 'Name of the rule.' },
              ruleIndex: count('Its index in the list of its direction.'),
            },
          },
        },
      },
      crd: { maxItems: 20 },
    },
  },
};
