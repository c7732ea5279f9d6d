import { compareText } from '../../../lib/sharing/order.ts';
import type { BindingRecord, EgressRecord, GapRecord } from './egress-record.ts';

/** A connection that left by a gateway, from its two lines. */
export interface GatewayBinding extends Omit<BindingRecord, 'time' | 'event'> {
  /** Null: before the first line that there is. */
  readonly begun: string | null;
  /** Null: it goes on, or its end was not recorded. */
  readonly ended: string | null;
}

export interface BindingQuery {
  /** As the destination saw it, in its canonical form. */
  readonly address: string;
  /** Undefined: any. */
  readonly port: number | undefined;
  /** Milliseconds since 1970, both inclusive; null: any time. */
  readonly during: { readonly from: number; readonly to: number } | null;
}

export interface Found {
  /** In the order in which they began. */
  readonly bindings: readonly GatewayBinding[];
  /** Where connections may be missing. */
  readonly gaps: readonly GapRecord[];
  /** Lines that are no records. */
  readonly bad: number;
}

/**
 * The connections that had an address and port at a time. Memory grows with those that had the
 * address, and with gaps, not with the records.
 */
export async function findBindings(
  lines: AsyncIterable<string | null>,
  { address, port, during }: BindingQuery,
): Promise<Found> {
  const bindings = new Map<string, GatewayBinding>();
  const done: GatewayBinding[] = [];
  const gaps: GapRecord[] = [];
  let bad = 0;
  for await (const line of lines) {
    if (line === null) continue;
    const record = toRecord(line);
    if (record === null) bad++;
    else if (record.event === 'gap') gaps.push(record);
    else if (record.address === address && (port === undefined || record.port === port)) {
      const { time, event, ...rest } = record;
      const key = keyOf(record);
      const open = bindings.get(key);
      if (event === 'begun') bindings.set(key, { ...rest, begun: time, ended: null });
      else {
        bindings.delete(key);
        done.push({ ...open, ...rest, begun: open?.begun ?? null, ended: time });
      }
    }
  }
  const all = [...done, ...bindings.values()].filter((one) => during === null || overlaps(one, during));
  return { bindings: all.sort((a, b) => compareText(startOf(a), startOf(b))), gaps, bad };
}

function overlaps({ begun, ended }: GatewayBinding, { from, to }: { from: number; to: number }): boolean {
  return (begun === null || Date.parse(begun) <= to) && (ended === null || Date.parse(ended) >= from);
}

function startOf({ begun, ended }: GatewayBinding): string {
  return begun ?? ended ?? '';
}

/** The kernel may give an id again; not to the same addresses and ports at one time. */
function keyOf({ id, protocol, src, srcPort, port, dst, dstPort }: BindingRecord): string {
  return [id, protocol, src, srcPort, port, dst, dstPort].join(' ');
}

const EVENTS: ReadonlySet<unknown> = new Set(['begun', 'ended', 'gap']);

function toRecord(line: string): EgressRecord | null {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== 'object' || value === null || !('event' in value)) return null;
    return EVENTS.has(value.event) ? (value as EgressRecord) : null;
  } catch {
    return null; // counted as bad: half a line after a crash, or a line of another program
  }
}
