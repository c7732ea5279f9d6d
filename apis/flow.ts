/**
 * A connection as `explain` is asked about it, and the answer. The shapes are those of the command
 * line.
 */
import { parseAddress, unmappedText } from '../lib/net/address.ts';
import type { EgressFlow } from './egress/flow.ts';
import { namedProtocolNumber } from './ip-protocols.ts';
import type { RuleAction } from './objects.ts';
import { BOOLEAN, closed, either, integer, type Of, oneOf, type Shape, text, where } from './schema/shape.ts';

const called = <T>(wanted: string, of: Shape<T>): Shape<T> => ({ ...of, wanted });
const upTo = (most: number): Shape<number> => called(`a number from 0 to ${most}`, integer(0, most));
const PORT = upTo(65_535);
const BYTE = upTo(255);
const ADDRESS = where(text(), 'an IP address', (one) => parseAddress(one) !== null);
/** A name of ip-protocols.ts, for which parseFlow puts the number. */
const OTHER_NAME = where(text(), '', (one) => namedProtocolNumber(one) !== undefined) as Shape<never>;
const PROTOCOL = either(
  '"tcp", "udp", "sctp", "icmp", "icmpv6", "igmp", another name such as "ospf", or a number from 0 to 255',
  oneOf('tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp'),
  either('', BYTE, OTHER_NAME),
);
const DIRECTION = called('"ingress" or "egress"', oneOf('ingress', 'egress'));

/** One new connection. An absent field is unknown and matches only rules that do not test it. */
export type Flow = Of<typeof FLOW>;
const OPTIONAL = {
  src: ADDRESS,
  dst: ADDRESS,
  protocol: PROTOCOL,
  srcPort: PORT,
  dstPort: PORT,
  /** The destination before destination NAT, which the failsafe list also tests. Absent: no NAT. */
  originalDst: ADDRESS,
  originalDstPort: PORT,
  icmpType: BYTE,
  icmpCode: BYTE,
  igmpType: BYTE,
  interfaceGroup: either("a group's name or number", text(), integer(0, 2 ** 32 - 1)),
  traffic: called('"Host", "NodePort" or "Egress"', oneOf('Host', 'NodePort')),
  /**
   * A packet that another table has left out of connection tracking; of TCP, not one that asks for
   * a connection. Absent: false.
   */
  untracked: BOOLEAN,
};
const FLOW = closed({ direction: DIRECTION }, OPTIONAL);

type FieldShapes = Readonly<Record<string, Shape<unknown>>>;
const FIELDS: FieldShapes = { direction: DIRECTION, ...OPTIONAL };
const EGRESS_FIELDS: FieldShapes = {
  traffic: oneOf('Egress'),
  pod: where(text(), '"namespace/name" of a pod', (one) => /^[^/]+\/[^/]+$/.test(one)),
  src: ADDRESS,
  dst: ADDRESS,
  protocol: PROTOCOL,
  srcPort: PORT,
  dstPort: PORT,
};

export type Verdict = 'Allow' | 'Drop' | 'Reject';

export interface FlowAnswer {
  readonly verdict: Verdict;
  readonly policy: string | null;
  readonly rule: string | null;
  readonly ruleIndex: number | null;
  readonly tier: string | null;
  readonly reason: 'rule' | 'default' | 'exempt' | 'failsafe' | 'spoofed';
  /** The exemption that accepted the flow; only with reason `exempt`. */
  readonly exemption?: string;
  /** Rules that matched and were skipped by the failsafe list, in order. */
  readonly skipped: readonly { readonly policy: string; readonly rule: string }[];
  /** Rules of Audit policies that matched before the decision, in order; absent is none. */
  readonly audited?: readonly {
    readonly policy: string;
    readonly rule: string;
    readonly action: RuleAction;
  }[];
}

/** One rule that was tested, in order, and the result. */
export interface Considered {
  readonly policy: string;
  readonly rule: string;
  readonly ruleIndex: number;
  readonly tier: string;
  readonly action: RuleAction;
  /** The part of the rule that the flow did not match; null if the rule matched. */
  readonly mismatch: 'address' | 'interface' | 'service' | null;
  /**
   * decided: the rule gave the verdict. passed: it matched, and evaluation goes on with the
   * baseline tier. audited: it matched and decides nothing. skipped: it matched, and the failsafe
   * list skipped it. spared: it matched, and packets to local pods skip it, as it names no pod.
   */
  readonly outcome: 'no match' | 'skipped' | 'spared' | 'audited' | 'passed' | 'decided';
}

/** An answer with the rules that were tested. */
export interface Explanation extends FlowAnswer {
  /** The rules that were tested, in order, up to the one that decided; only if asked for. */
  readonly considered?: readonly Considered[];
  /**
   * NAMESPACE/NAME of the Service whose healthCheckNodePort this is: the Node itself answers there,
   * so it is Host traffic. Absent: of none, or Services are not known.
   */
  readonly healthCheckOf?: string;
}

/** The verdict of the rules in force on a node for a flow, as its agent answers. */
export interface NodeExplanation {
  readonly node: string;
  readonly explanation: Explanation;
}

/** Whether parsed JSON is meant as a flow through egress gateways: parseEgressFlow reads it. */
export function isEgressFlow(raw: unknown): raw is { readonly traffic: 'Egress' } {
  return typeof raw === 'object' && raw !== null && 'traffic' in raw && raw.traffic === 'Egress';
}

/** Nodes answer with flows, too: one with 100,000 wrong fields must cost no more than another. */
const MOST_PROBLEMS = 10;

/**
 * Checks parsed JSON whose `traffic` is Egress; an IPv4-mapped address is read as IPv4. Throws a
 * TypeError that lists the problems, ten at most, and the valid values. `"direction": "egress"` is
 * accepted and says nothing.
 */
export function parseEgressFlow(raw: object): EgressFlow {
  const problems: string[] = [];
  for (const [field, value] of Object.entries(raw)) {
    if (field === 'direction' && value === 'egress') continue;
    const problem = fieldProblem(field, value, 'a flow of traffic Egress', EGRESS_FIELDS);
    if (problem !== null && problems.push(problem) === MOST_PROBLEMS) break;
  }
  if (!('dst' in raw)) problems.push('dst: is required, an IP address');
  if ('pod' in raw === 'src' in raw)
    problems.push(
      'pod, src: exactly one of the two is required: "namespace/name" of a pod, or an IP address',
    );
  const flow = unmapped(raw as EgressFlow, ['src', 'dst']);
  if (problems.length === 0) problems.push(...familyProblems(flow, ['src', 'dst']));
  if (problems.length > 0) throw new TypeError(problems.join('; '));
  return withNumber(flow);
}

/**
 * Checks parsed JSON and returns it as a flow; an IPv4-mapped address is read as IPv4. Throws a
 * TypeError that lists the problems, ten at most, and the valid values.
 */
export function parseFlow(raw: unknown): Flow {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
    throw new TypeError(
      'a flow is a JSON object such as {"direction":"ingress","src":"10.0.0.7","protocol":"tcp","dstPort":6443}',
    );
  }
  const problems: string[] = [];
  for (const [field, value] of Object.entries(raw)) {
    const problem = fieldProblem(field, value, 'a flow', FIELDS);
    if (problem !== null && problems.push(problem) === MOST_PROBLEMS) break;
  }
  if (!('direction' in raw)) problems.push('direction: is required, "ingress" or "egress"');
  const flow = unmapped(raw as Flow, ADDRESS_FIELDS);
  if (problems.length === 0) problems.push(...familyProblems(flow, ADDRESS_FIELDS));
  if (flow.untracked === true) problems.push(...NAT_FIELDS.flatMap((field) => untrackedProblem(flow, field)));
  if (problems.length > 0) throw new TypeError(problems.join('; '));
  return withNumber(flow);
}

/** The number in the place of a name that PROTOCOL_NUMBERS lacks. */
function withNumber<F extends { readonly protocol?: string | number | undefined }>(flow: F): F {
  const { protocol } = flow;
  if (typeof protocol !== 'string' || Object.hasOwn(PROTOCOL_NUMBERS, protocol)) return flow;
  return { ...flow, protocol: namedProtocolNumber(protocol) };
}

const ADDRESS_FIELDS = ['src', 'dst', 'originalDst'] as const;

/**
 * The flow with IPv4 for IPv4-mapped addresses (::ffff:192.0.2.1): programs log these for IPv4 on a
 * socket of IPv6, and packets have the IPv4 address.
 */
function unmapped<K extends string, F extends Partial<Record<K, string>>>(flow: F, fields: readonly K[]): F {
  const changed = fields.flatMap((field): [K, string][] => {
    const text: unknown = flow[field];
    return typeof text === 'string' && unmappedText(text) !== text ? [[field, unmappedText(text)]] : [];
  });
  return changed.length === 0 ? flow : { ...flow, ...Object.fromEntries(changed) };
}

/** Fields that only the kernel's connection tracking knows. */
const NAT_FIELDS = ['originalDst', 'originalDstPort', 'traffic'] as const;

function untrackedProblem(flow: Flow, field: (typeof NAT_FIELDS)[number]): string[] {
  if (flow[field] === undefined || flow[field] === 'Host') return [];
  return [`${field}: leave it out: NAT changes no packet that is untracked`];
}

function familyProblems<K extends string>(flow: Partial<Record<K, string>>, fields: readonly K[]): string[] {
  const ends = fields.filter((field) => flow[field] !== undefined);
  const families = new Set(ends.map((field) => flow[field]?.includes(':')));
  if (families.size < 2) return [];
  const texts = ends.map((field) => flow[field]);
  return [
    `${ends.join(', ')}: ${texts.slice(0, -1).join(', ')} and ${texts.at(-1)} are not of one IP family`,
  ];
}

/** `of` has these fields. */
function fieldProblem(field: string, value: unknown, of: string, fields: FieldShapes): string | null {
  const shape = Object.hasOwn(fields, field) ? fields[field] : undefined;
  if (shape === undefined) return `${field}: unknown field; ${of} has ${Object.keys(fields).join(', ')}`;
  return shape.accepts(value)
    ? null
    : `${field}: ${JSON.stringify(value)} is not valid; must be ${shape.wanted}`;
}

/** IP protocol numbers (IANA) of the protocols that policies name. */
export const PROTOCOL_NUMBERS = { icmp: 1, igmp: 2, tcp: 6, udp: 17, icmpv6: 58, sctp: 132 } as const;

/** The number of a protocol of a flow or of a port match. */
export function ipProtocolNumber(protocol: keyof typeof PROTOCOL_NUMBERS | number): number {
  return typeof protocol === 'number' ? protocol : PROTOCOL_NUMBERS[protocol];
}
