import type { ParsedRecord } from '../agent/record/record-filter.ts';
import type { FlowAnswer } from '../apis/flow.ts';
import { ipProtocolName } from '../apis/ip-protocols.ts';
import type { NodeFlow } from '../apis/node-flows.ts';
import { styled } from '../lib/process/terminal.ts';
import { printable } from '../lib/sharing/safe-text.ts';

type Colour = 'green' | 'red' | 'magenta' | 'cyan';

const COLOURS: ReadonlyMap<unknown, Colour> = new Map<string, Colour>([
  ['Allow', 'green'],
  ['Drop', 'red'],
  ['Reject', 'magenta'],
  ['Pass', 'cyan'],
]);

/**
 * A record as one human-readable line. Text that is not a plain word is quoted, so that a label
 * cannot send control sequences to the terminal.
 */
export function recordText(record: ParsedRecord): string {
  const rule =
    record.policy === undefined
      ? fieldText(record.event === 'rolledBack' ? record.event : record.reason)
      : `${fieldText(record.tier)} ${fieldText(record.policy)}/${fieldText(record.rule)}`.trim();
  const place = [fieldText(record.interface), fieldText(record.interfaceGroup)]
    .filter((one) => one !== '')
    .join('/');
  const words = [
    styled('dim', fieldText(record.time)),
    verdictText(record),
    fieldText(record.direction).padEnd(7),
    record.verdict === undefined ? '' : flowText(record),
    place === '' ? '' : `by ${place}`,
    rule,
    record.label === undefined ? '' : `label=${fieldText(record.label)}`,
    record.traffic === 'NodePort' ? 'NodePort' : '',
    record.after === undefined ? '' : styled('dim', `(after ${fieldText(record.after)})`),
    record.event === 'ended'
      ? `(established, ${fieldText(record.reason)}${record.by === undefined ? '' : ` by ${fieldText(record.by)}`})`
      : '',
    record.event === 'rolledBack' ? fieldText(record.reason) : '',
    count(record.suppressed, 'more of this rule not recorded'),
    count(record.lost, 'records lost'),
  ];
  return words.filter((one) => one.trim() !== '').join('  ');
}

function verdictText({ verdict, audit }: ParsedRecord): string {
  if (verdict === undefined) return ' '.repeat(0);
  const text = `${fieldText(verdict)}${audit === true ? ' (audit)' : ''}`.padEnd('Reject (audit)'.length);
  const colour = COLOURS.get(verdict) ?? 'yellow';
  return styled(audit === true ? 'yellow' : colour, text);
}

function flowText(record: ParsedRecord): string {
  const { src, dst, srcPort, dstPort, icmpType, icmpCode, igmpType, originalDst, originalDstPort } = record;
  const kind = [icmpType ?? igmpType, icmpCode]
    .filter((one) => one !== undefined)
    .map(fieldText)
    .join('/');
  const from = end(src, srcPort);
  const to = end(dst, dstPort);
  const asked = originalDst === undefined ? '' : ` (for ${end(originalDst, originalDstPort)})`;
  return `${protocolText(record.protocol)}${kind === '' ? '' : ` ${kind}`} ${from} → ${to}${asked}`;
}

/** By name where there is one. */
function protocolText(protocol: unknown): string {
  return fieldText(typeof protocol === 'number' ? ipProtocolName(protocol) : protocol);
}

function end(address: unknown, port: unknown): string {
  const text = fieldText(address ?? '?');
  if (port === undefined) return text;
  return text.includes(':') ? `[${text}]:${fieldText(port)}` : `${text}:${fieldText(port)}`;
}

function count(value: unknown, what: string): string {
  return value === undefined ? '' : styled('yellow', `(${fieldText(value)} ${what})`);
}

export function fieldText(value: unknown): string {
  if (value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (/^[\w./:#@*-]*$/.test(text)) return text;
  // JSON does not escape DEL and the C1 control characters.
  return printable(JSON.stringify(text));
}

/** The protocol of a kind, with its port or type. */
export function kindServiceText({
  protocol,
  port,
  icmpType,
  icmpCode,
  allPorts,
}: Omit<NodeFlow, 'decision'>): string {
  const of = protocolText(protocol);
  if (allPorts === true) return `${of} all others`;
  if (port !== undefined) return `${of} ${fieldText(port)}`;
  const type = icmpCode === undefined ? fieldText(icmpType) : `${fieldText(icmpType)}/${fieldText(icmpCode)}`;
  return `${of} ${type}`.trim();
}

/** A verdict, and what decides so. */
export function answerText(answer: FlowAnswer): string {
  return `${fieldText(answer.verdict)} ${ruleText(answer)}`;
}

function ruleText({ policy, rule, reason, exemption }: FlowAnswer): string {
  if (reason === 'exempt') return `(exempt: ${fieldText(exemption)})`;
  return policy === null || rule === null
    ? `(${fieldText(reason)})`
    : `${fieldText(policy)}/${fieldText(rule)}`;
}

/**
 * The first line, of at most so many characters; an ellipsis ends one that was longer. Messages
 * come from nodes, which must not send control sequences to a terminal.
 */
export function oneLine(message: string, most = 160): string {
  const [first = ''] = message.split('\n', 1);
  const text = printable(first);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** As in `10.0.0.1:443` and `[2001:db8::1]:443`. */
export function endText(address: string, port: number | undefined): string {
  if (port === undefined) return address;
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
