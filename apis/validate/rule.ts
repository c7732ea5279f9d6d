import type { ApiGroup, Direction, Rule } from '../objects.ts';
import { asFields, asList } from '../schema/jsonschema.ts';
import { checkAppliedTo, toAppliedTo } from './appliedto.ts';
import { checkPeer, toPeer } from './peer.ts';
import type { FieldPath, Findings } from './problem.ts';
import { checkPort, checkProtocol, toPort, toProtocol } from './service.ts';

const PEER_FIELD = { ingress: 'from', egress: 'to' } as const;

/** What the schema can't say of one rule. */
export function checkRule(
  raw: unknown,
  path: FieldPath,
  { direction, apiGroup }: { readonly direction: Direction; readonly apiGroup: ApiGroup },
  found: Findings,
): void {
  const rule = asFields(raw);
  if (rule === null) return;
  if (rule.action === 'Pass')
    found.error([...path, 'action'], 'Pass is not supported yet; use Allow, Drop or Reject');
  if (rule.enableLogging === true) found.error([...path, 'enableLogging'], 'true is not supported yet');
  if (typeof rule.logLabel === 'string' && rule.logLabel !== '') {
    found.error([...path, 'logLabel'], 'is not supported yet');
  }
  if ('l7Protocols' in rule) found.error([...path, 'l7Protocols'], 'is not supported for Nodes');
  if (direction === 'egress') checkToServices(rule, path, found);
  const peers = PEER_FIELD[direction];
  for (const [index, peer] of asList(rule[peers]).entries()) {
    checkPeer(peer, [...path, peers, index], { direction, apiGroup }, found);
  }
  for (const [index, port] of asList(rule.ports).entries()) checkPort(port, [...path, 'ports', index], found);
  for (const [index, protocol] of asList(rule.protocols).entries()) {
    checkProtocol(protocol, [...path, 'protocols', index], apiGroup, found);
  }
  checkAppliedTo(rule.appliedTo, [...path, 'appliedTo'], found);
}

function checkToServices(rule: Readonly<Record<string, unknown>>, path: FieldPath, found: Findings): void {
  if (asList(rule.toServices).length === 0) return;
  const at = [...path, 'toServices'];
  found.error(at, 'is not supported yet');
  const beside = ['to', 'ports', 'protocols'].filter((field) => asList(rule[field]).length > 0);
  if (beside.length > 0) found.error(at, `can't stand together with ${beside.join(', ')}`);
}

/** A rule that passed its checks; empty lists are left out, being as if absent. */
export function toRule(raw: Rule): Rule {
  const { name, action, from = [], to = [], ports = [], protocols = [], appliedTo = [] } = raw;
  return {
    ...(name === undefined || name === '' ? {} : { name }),
    action,
    ...(from.length === 0 ? {} : { from: from.map(toPeer) }),
    ...(to.length === 0 ? {} : { to: to.map(toPeer) }),
    ...(ports.length === 0 ? {} : { ports: ports.map(toPort) }),
    ...(protocols.length === 0 ? {} : { protocols: protocols.map(toProtocol) }),
    ...(appliedTo.length === 0 ? {} : { appliedTo: toAppliedTo(appliedTo) }),
  };
}
