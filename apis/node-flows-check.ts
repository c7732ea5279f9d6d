import { parseAddress, parseCidr } from '../lib/net/address.ts';
import type { Answer, Verdict } from './flow.ts';
import type { NodeFlow, NodeFlows } from './node-flows.ts';
import { parseFlow } from './parse-flow.ts';
import { PROTOCOL_NUMBERS } from './protocols.ts';

/**
 * Whether what a node answers has the form of NodeFlows. A node may be compromised, and what it
 * says is shown together with what others say, and becomes part of policies.
 */

type Fields = Readonly<Record<string, unknown>>;

/** Throws a TypeError that says which part has another form, also if it is one of the kinds. */
export function checkedFlows(answer: unknown): NodeFlows {
  const fields: Fields = Object(answer);
  const { node, since, liveAt, flows, isCut, kinds, missed, controlPlane = [] } = fields;
  const { leftOut, overruns, busySeconds }: Fields = Object(missed);
  const problems = [
    typeof node === 'string' ? '' : 'node',
    isTime(since) ? '' : 'since',
    liveAt === null || isTime(liveAt) ? '' : 'liveAt',
    typeof isCut === 'boolean' ? '' : 'isCut',
    [kinds, leftOut, overruns, busySeconds].every(isCount) ? '' : 'kinds, missed',
    fields.continue === undefined || typeof fields.continue === 'string' ? '' : 'continue',
    Array.isArray(controlPlane) && controlPlane.every(isFailsafeEntry) ? '' : 'controlPlane',
    Array.isArray(flows) ? '' : 'flows',
  ].filter((problem) => problem !== '');
  if (Array.isArray(flows)) {
    const wrong = flows.findIndex((kind) => !isNodeFlow(kind));
    if (wrong !== -1) problems.push(`flows[${wrong}]`);
  }
  if (problems.length === 0) return answer as NodeFlows;
  throw new TypeError(`its answer is not one about flows: ${problems.join(', ')}`);
}

/** Whether a part of an answer has the form of a kind. */
export function isNodeFlow(kind: unknown): kind is NodeFlow {
  const { direction, traffic, peer, protocol, port, icmpType, icmpCode, verdict, ...rest }: Fields =
    Object(kind);
  return (
    (direction === 'ingress' || direction === 'egress') &&
    (traffic === 'Host' || (traffic === 'NodePort' && direction === 'ingress')) &&
    typeof peer === 'string' &&
    (parseAddress(peer) !== null || parseCidr(peer) !== null) &&
    isProtocol(protocol) &&
    (port === undefined || isUpTo(65_535, port)) &&
    [icmpType, icmpCode].every((one) => one === undefined || isUpTo(255, one)) &&
    isVerdict(verdict) &&
    isCount(rest.connections) &&
    (rest.live === null || isCount(rest.live)) &&
    isTime(rest.firstSeen) &&
    isTime(rest.lastSeen) &&
    isFlow(rest.flow) &&
    (rest.decision === null || isAnswer(rest.decision))
  );
}

/** Its link group is a number: names are those of the agent's configuration. */
function isFlow(flow: unknown): boolean {
  try {
    return typeof parseFlow(flow).interfaceGroup !== 'string';
  } catch {
    return false;
  }
}

function isAnswer(value: unknown): value is Answer {
  const {
    verdict,
    policy,
    rule,
    ruleIndex,
    reason,
    exemption,
    skipped,
    audited = [],
  }: Fields = Object(value);
  const isNamed = (one: unknown): boolean =>
    typeof Object(one).policy === 'string' && typeof Object(one).rule === 'string';
  return (
    isVerdict(verdict) &&
    [policy, rule].every((one) => one === null || typeof one === 'string') &&
    (ruleIndex === null || isCount(ruleIndex)) &&
    typeof reason === 'string' &&
    (exemption === undefined || typeof exemption === 'string') &&
    [skipped, audited].every((list) => Array.isArray(list) && list.every(isNamed))
  );
}

function isFailsafeEntry(value: unknown): boolean {
  const { protocol, ports, peers }: Fields = Object(value);
  return (
    (protocol === 'tcp' || protocol === 'udp' || protocol === 'sctp') &&
    Array.isArray(ports) &&
    ports.length === 2 &&
    ports.every((port) => isUpTo(65_535, port)) &&
    (typeof peers === 'string' || (Array.isArray(peers) && peers.every((one) => typeof one === 'string')))
  );
}

function isVerdict(value: unknown): value is Verdict {
  return value === 'Allow' || value === 'Drop' || value === 'Reject';
}

function isProtocol(value: unknown): boolean {
  return (typeof value === 'string' && Object.hasOwn(PROTOCOL_NUMBERS, value)) || isUpTo(255, value);
}

function isUpTo(most: number, value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most;
}

/** A whole number that can be added up. */
export function isCount(value: unknown): value is number {
  return isUpTo(Number.MAX_SAFE_INTEGER, value);
}

export function isTime(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 32 && !Number.isNaN(Date.parse(value));
}
