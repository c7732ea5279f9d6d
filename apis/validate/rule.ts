import type { NamespacedName, Rule } from '../objects.ts';
import { asFields, asList } from '../schema/json-schema.ts';
import { checkAppliedTo, toAppliedTo } from './applied-to.ts';
import { checkNamespacedName } from './names.ts';
import { checkPeer, PEER_FIELD, type PeerPlace, toPeer } from './peer.ts';
import type { FieldPath, Findings } from './problem.ts';
import { checkPort, checkProtocol, toPort, toProtocol } from './service.ts';

/** The properties of a policy that decide what its rules may contain. */
interface RulePlace extends PeerPlace {
  /** Whether the policy is in the baseline tier, which is the last. */
  readonly isBaseline: boolean;
  /** Whether the policy has mode Audit: matches are recorded even without enableLogging. */
  readonly isAudit: boolean;
}

/** Checks of one rule that the schema cannot express. */
export function checkRule(raw: unknown, path: FieldPath, place: RulePlace, found: Findings): void {
  const rule = asFields(raw);
  if (rule === null) return;
  const { direction, apiGroup } = place;
  if (rule.action === 'Pass' && place.isBaseline) {
    const message = `Pass is not allowed in the baseline tier, because Pass continues with that tier; use Allow, Drop or Reject`;
    found.error([...path, 'action'], message);
  }
  const isLogged = rule.enableLogging === true || place.isAudit;
  if (typeof rule.logLabel === 'string' && rule.logLabel !== '' && !isLogged) {
    found.warning([...path, 'logLabel'], 'has no effect, because enableLogging is not true');
  }
  if ('l7Protocols' in rule) found.error([...path, 'l7Protocols'], 'is not supported for Nodes');
  if (direction === 'egress') checkToServices(rule, path, found);
  const peers = PEER_FIELD[direction];
  for (const [index, peer] of asList(rule[peers]).entries()) {
    checkPeer(peer, [...path, peers, index], place, found);
  }
  for (const [index, port] of asList(rule.ports).entries()) checkPort(port, [...path, 'ports', index], found);
  for (const [index, protocol] of asList(rule.protocols).entries()) {
    checkProtocol(protocol, [...path, 'protocols', index], apiGroup, found);
  }
  checkAppliedTo(rule.appliedTo, [...path, 'appliedTo'], found);
}

function checkToServices(rule: Readonly<Record<string, unknown>>, path: FieldPath, found: Findings): void {
  const services = asList(rule.toServices);
  if (services.length === 0) return;
  const at = [...path, 'toServices'];
  const beside = ['to', 'ports', 'protocols'].filter((field) => asList(rule[field]).length > 0);
  if (beside.length > 0) {
    found.error(at, `can't be combined with ${beside.join(', ')}; write one rule for each`);
  }
  for (const [index, service] of services.entries()) {
    checkNamespacedName(service, 'Service', [...at, index], found);
    if (asFields(service)?.scope === 'ClusterSet') {
      found.error([...at, index, 'scope'], 'ClusterSet is not supported for Nodes');
    }
  }
}

/** Converts a rule that passed the checks; empty lists count as absent and are left out. */
export function toRule(raw: Rule): Rule {
  const { name, action, from = [], to = [], toServices = [], ports = [], protocols = [] } = raw;
  const { enableLogging, logLabel, appliedTo = [] } = raw;
  return {
    ...(name === undefined || name === '' ? {} : { name }),
    action,
    ...(from.length === 0 ? {} : { from: from.map(toPeer) }),
    ...(to.length === 0 ? {} : { to: to.map(toPeer) }),
    ...(toServices.length === 0 ? {} : { toServices: toServices.map(toNamespacedName) }),
    ...(ports.length === 0 ? {} : { ports: ports.map(toPort) }),
    ...(protocols.length === 0 ? {} : { protocols: protocols.map(toProtocol) }),
    ...(enableLogging === true ? { enableLogging } : {}),
    ...(logLabel === undefined || logLabel === '' ? {} : { logLabel }),
    ...(appliedTo.length === 0 ? {} : { appliedTo: toAppliedTo(appliedTo) }),
  };
}

function toNamespacedName({ name, namespace }: NamespacedName): NamespacedName {
  return { name, namespace };
}
