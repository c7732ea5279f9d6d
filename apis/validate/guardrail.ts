import type { DecidingRule } from '../difference/row.ts';
import type { Flow } from '../flow.ts';
import { labelSelector } from '../label-selector.ts';
import type { Guardrail, RequiredFlow } from '../objects.ts';
import {
  ATOMIC_OBJECT,
  conditions,
  count,
  GRANULAR_OBJECT,
  kindSchema,
  LAST_DEFINITIONS_SCHEMA,
  MOST,
  READINESS,
} from '../schema/crd-parts.ts';
import {
  choiceField,
  listField,
  objectField,
  objectsField,
  textField,
  textsField,
} from '../schema/fields.ts';
import { asFields, asList, type FieldMap, type JsonSchema } from '../schema/json-schema.ts';
import { checkMetadata, toIdentity } from './metadata.ts';
import { checkPeer, PEER_FIELD, peers, toPeer } from './peer.ts';
import { type FieldPath, type Findings, hasError, show } from './problem.ts';
import { reportSchema } from './schema-problem.ts';
import { checkSelector, toSelector } from './selector.ts';
import { checkPort, checkProtocol, SERVICE_FIELDS, toPort, toProtocol } from './service.ts';

/** A flow of a Guardrail whose verdict is another than it must be. */
export interface Violation {
  readonly node: string;
  /** As in `mustAllow[0]`. */
  readonly item: string;
  readonly flow: Flow;
  /** The rule that decides; null: none. */
  readonly rule: DecidingRule | null;
}

/** An item of `violations` of `nodewall validate -o json`. */
export interface GuardrailViolation extends Violation {
  readonly guardrail: string;
}

/** Pending: it is not evaluated, because it names a ClusterGroup that does not exist. */
const GUARDRAIL_PHASES = ['Holds', 'Broken', 'Pending'] as const;

/** The `status` of a Guardrail, without its conditions. */
export interface GuardrailStatus {
  readonly phase: (typeof GUARDRAIL_PHASES)[number];
  readonly observedGeneration: number;
  /** By node name, the first of them. */
  readonly violations: readonly Violation[];
  /** The missing objects that it names, one line each; while it is Pending, it waits for them. */
  readonly problems?: readonly string[];
}

/** The most violations in a status. */
export const MOST_VIOLATIONS = 20;

const flows = (description: string): JsonSchema =>
  listField(
    description,
    {
      ...ATOMIC_OBJECT,
      description: 'Flows: every value of what is not named.',
      required: ['direction'],
      properties: {
        name: textField('Unique in the Guardrail.', {
          maxLength: 253,
          pattern: '^[^\\p{Cc}\\p{Zl}\\p{Zp}]*$',
        }),
        direction: choiceField('As the Node sees it.', ['ingress', 'egress']),
        from: peers('from', 'Ingress only: sources, OR-ed; absent or empty is any address.'),
        to: peers('to', 'Egress only: destinations, OR-ed; absent or empty is any address.'),
        ...SERVICE_FIELDS,
        traffic: choiceField(
          'Host, the default: connections of the Node itself. NodePort: as in policies; ingress only.',
          ['Host', 'NodePort'],
        ),
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
    { maxItems: MOST.required },
  );

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
    phase: choiceField(
      'Holds: every flow has its verdict on every selected Node. Broken: see violations. Pending: it names what does not exist yet, see problems.',
      [...GUARDRAIL_PHASES],
    ),
    observedGeneration: count('The metadata.generation that this status is about.'),
    problems: textsField(
      'The missing objects that it names, one line each: it waits for them while it is Pending.',
      { maxItems: 20 },
    ),
    lastDefinitions: LAST_DEFINITIONS_SCHEMA,
    conditions: conditions({ ...READINESS, Ready: 'every flow has its verdict' }),
    violations: objectsField(
      'One flow for each Node and item that is broken; the first 20.',
      20,
      ['node', 'item', 'flow'],
      {
        node: textField('Name of the Node.'),
        item: textField('As in mustAllow[0].'),
        flow: {
          ...ATOMIC_OBJECT,
          description: 'The flow, as nodewall explain takes it.',
          'x-kubernetes-preserve-unknown-fields': true,
        },
        rule: objectField('The rule that decides; absent: none does.', ['policy', 'rule', 'ruleIndex'], {
          policy: textField('Name of the policy.'),
          rule: textField('Name of the rule.'),
          ruleIndex: count('Its index in the list of its direction.'),
        }),
      },
    ),
  },
};

/** The lists of a Guardrail, with the verdict that each demands. */
export const REQUIRED_LISTS = ['mustAllow', 'mustDeny'] as const;

/** Null if the Guardrail has an error. */
export function validateGuardrail(raw: FieldMap, found: Findings): Guardrail | null {
  checkMetadata(raw, found);
  reportSchema(GUARDRAIL_SCHEMA, raw, found);
  const fields = asFields(raw.spec) ?? {};
  checkSelector(fields.nodeSelector, ['spec', 'nodeSelector'], found);
  const names = new Map<string, string>();
  for (const list of REQUIRED_LISTS) {
    for (const [index, item] of asList(fields[list]).entries()) {
      const path = ['spec', list, index];
      checkItem(asFields(item), path, found);
      checkItemName(asFields(item)?.name, `${list}[${index}]`, path, names, found);
    }
  }
  if (hasError(found.problems)) return null;
  // The checks above guarantee the type.
  const { nodeSelector, mustAllow = [], mustDeny = [] } = raw.spec as Guardrail['spec'];
  const spec = {
    nodeSelector: toSelector(nodeSelector),
    ...(mustAllow.length === 0 ? {} : { mustAllow: mustAllow.map(toRequiredFlow) }),
    ...(mustDeny.length === 0 ? {} : { mustDeny: mustDeny.map(toRequiredFlow) }),
  };
  return { kind: 'Guardrail', apiGroup: 'nodewall.io', ...toIdentity(raw), spec };
}

function checkItem(item: FieldMap | null, path: FieldPath, found: Findings): void {
  if (item === null) return;
  const direction = item.direction === 'egress' ? 'egress' : 'ingress';
  const [own, other] = direction === 'egress' ? ['to', 'from'] : ['from', 'to'];
  if (asList(item[other]).length > 0 && typeof item.direction === 'string') {
    found.error([...path, other], `belongs to the other direction; flows of ${direction} have ${own}`);
  }
  if (item.traffic === 'NodePort' && direction === 'egress') {
    found.error([...path, 'traffic'], 'NodePort traffic is ingress; write direction: ingress');
  }
  const place = { direction, apiGroup: 'nodewall.io' } as const;
  const field = PEER_FIELD[direction];
  for (const [index, peer] of asList(item[field]).entries()) {
    checkPeer(peer, [...path, field, index], place, found);
  }
  for (const [index, port] of asList(item.ports).entries()) checkPort(port, [...path, 'ports', index], found);
  for (const [index, protocol] of asList(item.protocols).entries()) {
    checkProtocol(protocol, [...path, 'protocols', index], 'nodewall.io', found);
  }
}

function checkItemName(
  name: unknown,
  place: string,
  path: FieldPath,
  names: Map<string, string>,
  found: Findings,
): void {
  if (typeof name !== 'string' || name === '') return;
  const first = names.get(name);
  if (first === undefined) names.set(name, place);
  else
    found.error(
      [...path, 'name'],
      `${show(name)} is already the name of spec.${first}; names must be unique`,
    );
}

/** Converts an item that passed the checks; empty lists count as absent and are left out. */
function toRequiredFlow(raw: RequiredFlow): RequiredFlow {
  const { name, direction, from = [], to = [], ports = [], protocols = [], traffic = 'Host' } = raw;
  return {
    ...(name === undefined || name === '' ? {} : { name }),
    direction,
    ...(from.length === 0 ? {} : { from: from.map(toPeer) }),
    ...(to.length === 0 ? {} : { to: to.map(toPeer) }),
    ...(ports.length === 0 ? {} : { ports: ports.map(toPort) }),
    ...(protocols.length === 0 ? {} : { protocols: protocols.map(toProtocol) }),
    ...(traffic === 'Host' ? {} : { traffic }),
  };
}
