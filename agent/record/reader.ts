import type { NflogPacket } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Direction, RuleAction } from '../../apis/objects.ts';
import { SPOOFED, SPOOFED_PREFIX } from '../render/anti-spoofing.ts';
import {
  type ConnectionRecord,
  microsecondsText,
  type NoticeRecord,
  type Packet,
  type PacketFields,
  packetAddressText,
  parsePacket,
  type SpoofedFields,
  type SpoofedRecord,
} from './record.ts';

/**
 * The current interfaces of this machine, by index. Null if there is no such interface (any more).
 */
export interface Interfaces {
  nameOf(index: number): string | null;
  groupOf(index: number): number | null;
}

interface ReaderOptions {
  readonly node: string;
  readonly interfaces: Interfaces;
  /** Link group number to its name in the configuration. */
  readonly groupNames: ReadonlyMap<number, string>;
}

/** A record, and the id of its rule (SPOOFED if no rule decided). */
export interface RuleRecord {
  readonly id: string;
  readonly record: ConnectionRecord | SpoofedRecord;
}

/**
 * How long (milliseconds) a deleted rule is remembered, because its packets may still arrive, and
 * how many are.
 */
const KEEP_GONE = 60_000;
const MAX_GONE = 4096;
/** Number of audited packets that are searched for an earlier rule of the same policy. */
const TRAIL = 64;

const PREFIX = /^nodewall ([0-9a-f]{12}) (allow|drop|reject|pass)( audit)?$/i;
const ACTIONS: Readonly<Record<string, RuleAction>> = {
  allow: 'Allow',
  drop: 'Drop',
  reject: 'Reject',
  pass: 'Pass',
};

interface KnownRule {
  readonly rule: CompiledRule;
  readonly order: number;
  readonly goneAt: number | null;
}

/** An earlier audited packet. */
interface Trace {
  readonly packet: string;
  readonly known: KnownRule;
}

/**
 * Converts packets to records. `now` is in milliseconds of one clock of the caller; `wall` is in
 * microseconds since 1970.
 */
export class RecordReader {
  readonly #parts: ReaderOptions;
  #rules = new Map<string, KnownRule>();
  /** Keys (auditKey) with two or more Audit rules, which one packet may match in sequence. */
  #audited: ReadonlySet<string> = new Set();
  #trail: Trace[] = [];
  #unknown = 0;

  constructor(parts: ReaderOptions) {
    this.#parts = parts;
  }

  /**
   * Sets the rules that may write records from now on; called before they are applied, and after.
   * `now`: milliseconds.
   */
  learn(state: NodeState, now: number): void {
    const fresh = new Map<string, KnownRule>();
    for (const [order, rule] of state.rules.entries()) {
      if (rule.log !== null) fresh.set(rule.id, { rule, order, goneAt: null });
    }
    const gone = [...this.#rules]
      .filter(([id]) => !fresh.has(id))
      .map(([id, known]) => [id, { ...known, goneAt: known.goneAt ?? now }] as const)
      .filter(([, { goneAt }]) => now - goneAt < KEEP_GONE)
      .slice(-MAX_GONE);
    this.#rules = new Map<string, KnownRule>([...gone, ...fresh]);
    const seen = new Set<string>();
    const several = new Set<string>();
    for (const rule of state.rules) {
      if (rule.mode !== 'Audit') continue;
      const key = auditKey(rule);
      if (seen.has(key)) several.add(key);
      seen.add(key);
    }
    this.#audited = several;
    this.#trail = [];
  }

  /** Converts packets, in the order of their arrival. `wall`: microseconds since 1970. */
  read(packets: readonly NflogPacket[], wall: number): RuleRecord[] {
    return packets.flatMap((packet) => this.#toRecord(packet, wall) ?? []);
  }

  /**
   * The notice that `count` connections of a rule were not recorded; null if the rule is no
   * longer known.
   */
  suppressed(id: string, count: number, wall: number): NoticeRecord | null {
    const known = this.#rules.get(id);
    if (known === undefined && id !== SPOOFED) return null;
    const fields = known === undefined ? SPOOFED_FIELDS : ruleFields(known.rule);
    return { time: microsecondsText(wall), node: this.#parts.node, ...fields, suppressed: count };
  }

  /** The number of packets since the last call that belong to no known rule. */
  consumeUnknown(): number {
    const count = this.#unknown;
    this.#unknown = 0;
    return count;
  }

  #toRecord(packet: NflogPacket, wall: number): RuleRecord | null {
    if (packet.prefix === SPOOFED_PREFIX) return this.#toSpoofed(packet, wall);
    const match = PREFIX.exec(packet.prefix);
    const known = this.#rules.get(match?.[1] ?? '');
    const verdict = ACTIONS[match?.[2]?.toLowerCase() ?? ''];
    if (match === null || known === undefined || verdict === undefined) {
      this.#unknown++;
      return null;
    }
    const isAudit = match[3] !== undefined;
    const { rule } = known;
    const { length, ...fields } = packetFields(packet);
    const record: ConnectionRecord = {
      time: microsecondsText(packet.timestamp ?? wall),
      node: this.#parts.node,
      verdict,
      ...(isAudit ? { audit: true } : {}),
      ...ruleFields(rule),
      ...fields,
      ...this.#interfaceFields(packet, rule.source.direction),
      length,
      ...(isAudit ? this.#afterField(packet, known) : {}),
    };
    return { id: rule.id, record };
  }

  #toSpoofed(packet: NflogPacket, wall: number): RuleRecord {
    const record: SpoofedRecord = {
      time: microsecondsText(packet.timestamp ?? wall),
      node: this.#parts.node,
      verdict: 'Drop',
      ...SPOOFED_FIELDS,
      ...packetFields(packet),
      ...this.#interfaceFields(packet, 'ingress'),
    };
    return { id: SPOOFED, record };
  }

  #interfaceFields({ inputInterface, outputInterface }: NflogPacket, direction: Direction) {
    const { interfaces, groupNames } = this.#parts;
    const index = direction === 'ingress' ? inputInterface : outputInterface;
    if (index === null) return {};
    const group = interfaces.groupOf(index);
    return {
      // If the interface is gone, its index at least tells interfaces apart.
      interface: interfaces.nameOf(index) ?? `#${index}`,
      ...(group === null || group === 0 ? {} : { interfaceGroup: groupNames.get(group) ?? group }),
    };
  }

  /**
   * The earlier Audit rule of the same policy that this packet matched. A packet passes the rules
   * in order, so that the earlier matches directly precede this one.
   */
  #afterField(packet: NflogPacket, known: KnownRule): { after?: string } {
    if (!this.#audited.has(auditKey(known.rule))) return {};
    const bytes = Buffer.from(packet.payload).toString('latin1');
    const trace = {
      packet: `${packet.hook} ${packet.inputInterface} ${packet.outputInterface} ${bytes}`,
      known,
    };
    let first: KnownRule | null = null;
    for (const earlier of this.#trail.toReversed()) {
      if (earlier.packet !== trace.packet) continue;
      // The same packet passed the rules once more.
      if (earlier.known.order >= (first ?? known).order) break;
      if (auditKey(earlier.known.rule) === auditKey(known.rule)) first = earlier.known;
    }
    this.#trail = [...this.#trail.slice(1 - TRAIL), trace];
    return first === null ? {} : { after: `${first.rule.source.policy}/${first.rule.source.rule}` };
  }
}

const SPOOFED_FIELDS: SpoofedFields = { reason: SPOOFED, direction: 'ingress' };

/** Key of the Audit rules of one policy that one packet may match in sequence. */
function auditKey({ source }: CompiledRule): string {
  return `${source.apiGroup}/${source.policy}/${source.direction}`;
}

/** The fields of a record that name its rule. */
export function ruleFields({ source, tier, traffic, log }: CompiledRule) {
  const { policy, apiGroup, rule, ruleIndex, direction } = source;
  const label = log?.label ?? '';
  return {
    policy,
    apiGroup,
    tier,
    rule,
    ruleIndex,
    ...(label === '' ? {} : { label }),
    direction,
    traffic,
  };
}

function packetFields({ payload, original }: NflogPacket): Partial<PacketFields> & { length: number } {
  const packet = parsePacket(payload);
  if (packet === null) return { length: payload.length };
  const { src, dst, protocol, srcPort, dstPort, length } = packet;
  return {
    src,
    dst,
    protocol,
    ...(srcPort === null || dstPort === null ? {} : { srcPort, dstPort }),
    ...typeFields(packet),
    ...originalFields(packet, original),
    length,
  };
}

function typeFields({ protocol, type, code }: Packet): Partial<PacketFields> {
  if (type === null) return {};
  if (protocol === 'igmp') return { igmpType: type };
  return { icmpType: type, ...(code === null ? {} : { icmpCode: code }) };
}

function originalFields(packet: Packet, original: NflogPacket['original']): Partial<PacketFields> {
  const dst = original === null ? null : packetAddressText(original.destination);
  const port = original?.destinationPort ?? null;
  if (dst === null || (dst === packet.dst && (port === null || port === packet.dstPort))) return {};
  return { originalDst: dst, ...(port === null ? {} : { originalDstPort: port }) };
}
