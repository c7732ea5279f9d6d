import { type Flow, type FlowAnswer, parseFlow } from '../../apis/flow.ts';
import type { EgressAnswer, EgressFlow } from '../oracle/egress/egress-oracle.ts';

/**
 * A flow and its answer on one line:
 *
 *   ingress tcp 10.0.0.7 > 192.0.2.1:6443 => Allow by api/nodes
 *   egress icmpv6 type 128 [fd00::1] > [fd00::2] => Allow by default
 *   egress tcp 192.0.2.1 > 10.1.0.2:8443 was 10.96.0.9:443 => Allow by default
 *   ingress tcp 192.0.2.2:10250 > 192.0.2.1 untracked => Allow by default
 *   ingress NodePort tcp 198.51.100.7 > 192.0.2.1:30080 group 20 => Drop by web/rest
 *
 * `was` is the destination before NAT. What isn't said of a packet is as in most: source port
 * 40000, ICMP code 0. `any` is unknown.
 */
interface FlowLine {
  readonly flow: Flow;
  /** All before the arrow, as it is written. */
  readonly words: string;
  readonly expected: string;
}

const LINE = /^(.*?)(\s*=>\s*)(.*)$/;
const WORDS =
  /^(?<direction>\w+)(?: (?<traffic>NodePort))? (?<protocol>\w+)(?: type (?<type>\d+))?(?: code (?<code>\d+))? +(?<src>\S+) > (?<dst>\S+)(?: was (?<was>\S+))?(?: group (?<group>\S+))?(?<untracked> untracked)?$/;

/** Throws on a line it can't read. */
export function parseFlowLine(line: string): FlowLine {
  const [, left = line, arrow = ' => ', expected = ''] = LINE.exec(line) ?? [];
  const words = left.trim().replaceAll(/ +/g, ' ');
  const groups = WORDS.exec(words)?.groups;
  if (groups === undefined) {
    throw new Error(`not a flow: ${JSON.stringify(words)}; write "ingress tcp 10.0.0.7 > 192.0.2.1:6443"`);
  }
  const { direction, traffic, protocol = '', type, code, src = '', dst = '', was, group, untracked } = groups;
  const isIgmp = protocol === 'igmp';
  const hasPorts = ['tcp', 'udp', 'sctp'].includes(protocol);
  const [from, to, original] = [readEnd(src), readEnd(dst), readEnd(was ?? 'any')];
  const flow = parseFlow({
    direction,
    ...known('src', from.address),
    ...known('dst', to.address),
    ...known('protocol', protocol === 'any' ? undefined : number(protocol)),
    ...(hasPorts ? known('srcPort', from.port ?? 40000) : {}),
    ...known('dstPort', to.port),
    ...known('originalDst', original.address),
    ...known('originalDstPort', original.port),
    ...known(isIgmp ? 'igmpType' : 'icmpType', number(type)),
    ...(type !== undefined && !isIgmp ? { icmpCode: Number(code ?? 0) } : {}),
    ...known('interfaceGroup', number(group)),
    ...known('traffic', traffic),
    ...(untracked === undefined ? {} : { untracked: true }),
  });
  return { flow, words: `${left}${arrow}`, expected };
}

function known(field: string, value: unknown): object {
  return value === undefined ? {} : { [field]: value };
}

function number(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
}

/** `10.0.0.7`, `10.0.0.7:53`, `[fd00::7]`, `[fd00::7]:53` or `any`. */
function readEnd(text: string): { address?: string; port?: number } {
  const [whole, v6, v4, port] = /^(?:\[(.*)\]|([^:]*))(?::(\d+))?$/.exec(text) ?? [];
  if (whole === undefined) throw new Error(`not a flow: ${text}; write IPv6 as [2001:db8::1]:80`);
  const address = v6 ?? v4;
  return {
    ...(address === undefined || address === 'any' ? {} : { address }),
    ...(port === undefined ? {} : { port: Number(port) }),
  };
}

/** The verdict and why, in words. */
export function formatAnswer(answer: FlowAnswer): string {
  const audited = (answer.audited ?? []).map(({ policy, rule, action }) => `${policy}/${rule} (${action})`);
  return [decision(answer), ...(audited.length === 0 ? [] : [`audited ${audited.join(', ')}`])].join('; ');
}

function decision(answer: FlowAnswer): string {
  const { verdict, reason, policy, rule, exemption, skipped } = answer;
  if (reason === 'exempt') return `${verdict}, exempt: ${exemption}`;
  if (reason === 'spoofed') return `${verdict}, spoofed`;
  const by = policy === null ? 'default' : `${policy}/${rule}`;
  if (skipped.length === 0) return `${verdict} by ${by}`;
  const names = skipped.map((one) => `${one.policy}/${one.rule}`).join(', ');
  return `${verdict} by ${by}, failsafe skipped ${names}${reason === 'failsafe' ? '' : ' to no effect'}`;
}

/**
 * A flow of a pod or an address towards a destination, and the answer, on one line:
 *
 *   shop/web > 192.0.2.1 => Gateway by shop/p through gw: g1, 203.0.113.4
 *   [fd01::7] > [2001:db8::1] => Drop by shop/p through gw, no-family
 *   10.1.0.200 > 192.0.2.1 => Drop, unknown-pod
 */
interface EgressFlowLine {
  readonly flow: EgressFlow;
  /** All up to the arrow, as it is written. */
  readonly words: string;
}

const EGRESS_LINE = /^((?:\[(?<src6>\S+)\]|(?<src4>\d\S*)|(?<pod>\S+\/\S+)) > \[?(?<dst>[^\s\]]+)\]?\s*=>)/;

/** Throws on a line it can't read. */
export function parseEgressFlowLine(line: string): EgressFlowLine {
  const found = EGRESS_LINE.exec(line.includes('=>') ? line : `${line} =>`);
  if (found === null) throw new Error(`not a flow: ${JSON.stringify(line)}; write "shop/web > 192.0.2.1"`);
  const { src6, src4, pod, dst = '' } = found.groups ?? {};
  const src = src6 ?? src4;
  const source = pod === undefined ? { src: src ?? '' } : { pod };
  return { flow: { traffic: 'Egress', ...source, dst }, words: found[1] ?? '' };
}

/** The answer in words. */
export function formatEgressAnswer(answer: EgressAnswer): string {
  const { verdict, policy, gateway, node, address, reason } = answer;
  const by = policy === null ? '' : ` by ${policy}`;
  const through = gateway === null ? '' : ` through ${gateway}`;
  if (verdict === 'Gateway') return `${verdict}${by}${through}: ${node}, ${address}`;
  return `${verdict}${by}${through}${reason === 'policy' ? '' : `, ${reason}`}`;
}
