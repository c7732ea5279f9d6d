import type { Guardrail, RequiredFlow } from '../objects.ts';
import { GUARDRAIL_SCHEMA } from '../schema/guardrail.ts';
import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { checkMetadata, toIdentity } from './metadata.ts';
import { checkPeer, PEER_FIELD, toPeer } from './peer.ts';
import { type FieldPath, type Findings, hasError, show } from './problem.ts';
import { reportSchema } from './schema-problem.ts';
import { checkSelector, toSelector } from './selector.ts';
import { checkPort, checkProtocol, toPort, toProtocol } from './service.ts';

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
