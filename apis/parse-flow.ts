import { parseAddress } from '../lib/net/address.ts';
import type { Flow } from './flow.ts';

type FlowField = keyof Flow;

const NUMBERS: Partial<Record<FlowField, number>> = {
  srcPort: 65535,
  dstPort: 65535,
  originalDstPort: 65535,
  icmpType: 255,
  icmpCode: 255,
  igmpType: 255,
};
const PROTOCOLS = ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp'];
const FIELDS: readonly FlowField[] = [
  'direction',
  'src',
  'dst',
  'protocol',
  'srcPort',
  'dstPort',
  'originalDst',
  'originalDstPort',
  'icmpType',
  'icmpCode',
  'igmpType',
  'interfaceGroup',
  'traffic',
];

/**
 * Checks parsed JSON and returns it as a flow. Throws a TypeError that lists every problem and the
 * valid values.
 */
export function parseFlow(raw: unknown): Flow {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
    throw new TypeError(
      'a flow is a JSON object such as {"direction":"ingress","src":"10.0.0.7","protocol":"tcp","dstPort":6443}',
    );
  }
  const problems: string[] = [];
  for (const [field, value] of Object.entries(raw)) {
    const problem = fieldProblem(field, value);
    if (problem !== null) problems.push(problem);
  }
  if (!('direction' in raw)) problems.push('direction: is required, "ingress" or "egress"');
  const flow = raw as Flow;
  if (problems.length === 0) {
    const ends = (['src', 'dst', 'originalDst'] as const).filter((field) => flow[field] !== undefined);
    const families = new Set(ends.map((field) => parseAddress(flow[field] ?? '')?.family));
    if (families.size > 1) {
      const texts = ends.map((field) => flow[field]);
      problems.push(
        `${ends.join(', ')}: ${texts.slice(0, -1).join(', ')} and ${texts.at(-1)} are not of one IP family`,
      );
    }
  }
  if (problems.length > 0) throw new TypeError(problems.join('; '));
  return flow;
}

function fieldProblem(field: string, value: unknown): string | null {
  const highest = NUMBERS[field as FlowField];
  if (highest !== undefined)
    return isIntegerUpTo(value, highest) ? null : bad(field, value, `a number from 0 to ${highest}`);
  switch (field) {
    case 'direction':
      return value === 'ingress' || value === 'egress' ? null : bad(field, value, '"ingress" or "egress"');
    case 'src':
    case 'dst':
    case 'originalDst':
      return typeof value === 'string' && parseAddress(value) !== null
        ? null
        : bad(field, value, 'an IP address');
    case 'protocol': {
      const known = typeof value === 'string' ? PROTOCOLS.includes(value) : isIntegerUpTo(value, 255);
      return known
        ? null
        : bad(field, value, `${PROTOCOLS.map((name) => `"${name}"`).join(', ')}, or a number from 0 to 255`);
    }
    case 'interfaceGroup':
      return typeof value === 'string' || isIntegerUpTo(value, 2 ** 32 - 1)
        ? null
        : bad(field, value, "a group's name or number");
    case 'traffic':
      return value === 'Host' || value === 'NodePort' ? null : bad(field, value, '"Host" or "NodePort"');
    default:
      return `${field}: unknown field; a flow has ${FIELDS.join(', ')}`;
  }
}

function isIntegerUpTo(value: unknown, highest: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= highest;
}

function bad(field: string, value: unknown, valid: string): string {
  return `${field}: ${JSON.stringify(value)} is not valid; must be ${valid}`;
}
