import { BITS, formatAddress, ipv4Of, parseAddress } from '../lib/net/address.ts';
import type { EgressFlow } from './egress/flow.ts';
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
  'untracked',
];

const EGRESS_FIELDS = ['traffic', 'pod', 'src', 'dst', 'protocol', 'srcPort', 'dstPort'];
const POD = /^[^/]+\/[^/]+$/;

/** Whether parsed JSON is meant as a flow through egress gateways: parseEgressFlow reads it. */
export function isEgressFlow(raw: unknown): raw is { readonly traffic: 'Egress' } {
  return typeof raw === 'object' && raw !== null && 'traffic' in raw && raw.traffic === 'Egress';
}

/**
 * Checks parsed JSON whose `traffic` is Egress. Throws a TypeError that lists every problem and the
 * valid values. `"direction": "egress"` is accepted and says nothing.
 */
export function parseEgressFlow(raw: object): EgressFlow {
  const problems: string[] = [];
  for (const [field, value] of Object.entries(raw)) {
    const problem = egressFieldProblem(field, value);
    if (problem !== null) problems.push(problem);
  }
  if (!('dst' in raw)) problems.push('dst: is required, an IP address');
  if ('pod' in raw === 'src' in raw)
    problems.push(
      'pod, src: exactly one of the two is required: "namespace/name" of a pod, or an IP address',
    );
  const flow = raw as EgressFlow;
  if (problems.length === 0) problems.push(...familyProblems(flow, ['src', 'dst']));
  if (problems.length > 0) throw new TypeError(problems.join('; '));
  return flow;
}

function egressFieldProblem(field: string, value: unknown): string | null {
  if (field === 'pod') {
    const isPod = typeof value === 'string' && POD.test(value);
    return isPod ? null : bad(field, value, '"namespace/name" of a pod');
  }
  if (field === 'traffic' || (field === 'direction' && value === 'egress')) return null;
  if (EGRESS_FIELDS.includes(field)) return fieldProblem(field, value);
  return `${field}: unknown field; a flow of traffic Egress has ${EGRESS_FIELDS.join(', ')}`;
}

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
  if (problems.length === 0) problems.push(...familyProblems(flow, ['src', 'dst', 'originalDst']));
  if (flow.untracked === true) problems.push(...NAT_FIELDS.flatMap((field) => untrackedProblem(flow, field)));
  if (problems.length > 0) throw new TypeError(problems.join('; '));
  return flow;
}

/** Fields that only the kernel's connection tracking knows. */
const NAT_FIELDS = ['originalDst', 'originalDstPort', 'traffic'] as const;

function untrackedProblem(flow: Flow, field: (typeof NAT_FIELDS)[number]): string[] {
  if (flow[field] === undefined || flow[field] === 'Host') return [];
  return [`${field}: leave it out: NAT changes no packet that is untracked`];
}

function familyProblems<K extends string>(flow: Partial<Record<K, string>>, fields: readonly K[]): string[] {
  const ends = fields.filter((field) => flow[field] !== undefined);
  const families = new Set(ends.map((field) => parseAddress(flow[field] ?? '')?.family));
  if (families.size < 2) return [];
  const texts = ends.map((field) => flow[field]);
  return [
    `${ends.join(', ')}: ${texts.slice(0, -1).join(', ')} and ${texts.at(-1)} are not of one IP family`,
  ];
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
      return addressProblem(field, value);
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
    case 'untracked':
      return typeof value === 'boolean' ? null : bad(field, value, 'true or false');
    case 'traffic':
      return value === 'Host' || value === 'NodePort'
        ? null
        : bad(field, value, '"Host", "NodePort" or "Egress"');
    default:
      return `${field}: unknown field; a flow has ${FIELDS.join(', ')}`;
  }
}

function addressProblem(field: string, value: unknown): string | null {
  const address = typeof value === 'string' ? parseAddress(value) : null;
  if (address === null) return bad(field, value, 'an IP address');
  const mapped = ipv4Of({ ...address, length: BITS[address.family] });
  return mapped === null
    ? null
    : `${field}: ${value} is IPv4-mapped, and no packet has such an address; write ${formatAddress(mapped)}`;
}

function isIntegerUpTo(value: unknown, highest: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= highest;
}

function bad(field: string, value: unknown, valid: string): string {
  return `${field}: ${JSON.stringify(value)} is not valid; must be ${valid}`;
}
