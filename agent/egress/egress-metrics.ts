import { Counter, Gauge, type Registry } from 'prom-client';
import type { RuleTotals } from '../record/accounting.ts';
import { MOST_POLICIES, OTHERS } from '../run/agent-metrics.ts';
import type { EgressHealthReport } from './health/egress-health.ts';
import type { LeaseCounts } from './lease/lease-state.ts';
import { type ConntrackPressure, readPressure } from './record/conntrack-pressure.ts';
import type { RecordOutcome } from './record/egress-record.ts';
import { egressCount } from './render/counted.ts';

/** Each series is there from the start, so that its first increase shows. */
const OUTCOMES = ['begun', 'ended', 'lost'] as const satisfies RecordOutcome[];

/** The metrics of egress gateways. */
export interface EgressMetrics {
  /** @param counts null: there are no leases */
  leases(counts: LeaseCounts | null): void;
  /** How many parts the network configuration lacks. */
  lacks(count: number): void;
  records(event: RecordOutcome, lines: number): void;
  health(report: () => EgressHealthReport | null): void;
}

/** Adds the series to the registers. */
export function egressMetrics(
  registers: Registry[],
  totals: () => ReadonlyMap<string, RuleTotals>,
): EgressMetrics {
  let report: () => EgressHealthReport | null = () => null;
  egressPackets(registers, totals);
  conntrackPressure(registers);
  gatewayHealth(registers, () => report());
  const leases = leaseGauges(registers);
  const lacks = new Gauge({
    name: 'nodewall_egress_network_lacks',
    help: 'Parts that the network configuration of egress gateways lacks, the tunnel for example; what needs them is dropped.',
    registers,
  });
  const records = new Counter({
    name: 'nodewall_egress_records_total',
    help: 'Lines of egress-records.jsonl by event, and those that could not be written (lost).',
    labelNames: ['event'],
    registers,
  });
  for (const event of OUTCOMES) records.inc({ event }, 0);
  return {
    leases,
    lacks: (count) => lacks.set(count),
    records: (event, lines) => records.inc({ event }, lines),
    health(of) {
      report = of;
    },
  };
}

function gatewayHealth(registers: Registry[], report: () => EgressHealthReport | null): void {
  const gauge = (
    name: string,
    help: string,
    label: 'node' | 'gateway',
    values: (now: EgressHealthReport) => Iterable<readonly [string, number]>,
  ): Gauge<string> =>
    new Gauge({
      name: `nodewall_egress_${name}`,
      help,
      registers,
      labelNames: [label],
      collect() {
        this.reset();
        const now = report();
        for (const [of, value] of now === null ? [] : values(now)) this.set({ [label]: of }, value);
      },
    });
  gauge(
    'gateway_reachable',
    'Whether a gateway node answers through the tunnel; 0: its connections go by others.',
    'node',
    ({ roundTrips, unreachable }) =>
      [...roundTrips.keys()].map((node) => [node, unreachable.includes(node) ? 0 : 1]),
  );
  gauge(
    'probe_seconds',
    'Round trip of the last answer of a gateway node through the tunnel.',
    'node',
    ({ roundTrips }) =>
      [...roundTrips].flatMap(([node, trip]) => (trip === null ? [] : [[node, trip / 1000]])),
  );
  gauge(
    'gateway_failing',
    'Egress gateways of which this node is a candidate, and all of whose probes fail here.',
    'gateway',
    ({ unready }) => [...unready.keys()].map((gateway) => [gateway, 1]),
  );
}

function leaseGauges(registers: Registry[]): (counts: LeaseCounts | null) => void {
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `nodewall_egress_${name}`, help, registers });
  const alive = gauge('addresses', 'Floating addresses that are alive on this node, each under a lease.');
  const waiting = gauge(
    'slots_waiting',
    'Slots of floating addresses that are of this node and have no lease.',
  );
  const hindered = gauge(
    'slots_hindered',
    'Slots that this node cannot take: another host has an address, or the kernel refuses it.',
  );
  const answered = gauge('leases_answered', 'Whether a controller has answered the last request for leases.');
  return (counts) => {
    alive.set(counts?.alive ?? 0);
    waiting.set(counts?.waiting ?? 0);
    hindered.set(counts?.hindered ?? 0);
    answered.set(counts?.isAnswered === true ? 1 : 0);
  };
}

const PACKETS = [
  {
    label: 'policy',
    name: 'nodewall_egress_packets_total',
    help: 'First packets of connections that an egress policy decided on, on the node of the pod.',
  },
  {
    label: 'audited',
    name: 'nodewall_egress_audited_packets_total',
    help: 'First packets of connections that an egress policy of mode Audit would have decided on.',
  },
  {
    label: 'reason',
    name: 'nodewall_egress_dropped_packets_total',
    help: 'Packets of pods that egress gateways dropped, by reason (docs/egress.md).',
  },
] as const;

function egressPackets(registers: Registry[], totals: () => ReadonlyMap<string, RuleTotals>): void {
  for (const { label, name, help } of PACKETS) {
    const labelName = label === 'audited' ? 'policy' : label;
    new Counter({
      name,
      help,
      registers,
      labelNames: [labelName],
      collect() {
        this.reset();
        const counts = [...totals()].flatMap(([id, { packets }]) => {
          const value = Object.entries(egressCount(id) ?? {}).find(([key]) => key === label)?.[1];
          return value === undefined ? [] : [{ value, packets }];
        });
        const sorted = counts.sort((a, b) => (a.value < b.value ? -1 : 1));
        for (const [i, { value, packets }] of sorted.entries())
          this.inc({ [labelName]: i < MOST_POLICIES ? value : OTHERS }, packets);
      },
    });
  }
}

function conntrackPressure(registers: Registry[]): void {
  const gauge = (name: string, help: string, value: (pressure: ConntrackPressure) => number): Gauge<string> =>
    new Gauge({
      name: `nodewall_egress_conntrack_${name}`,
      help,
      registers,
      async collect() {
        const pressure = await readPressure();
        this.set(pressure === null ? Number.NaN : value(pressure));
      },
    });
  gauge('entries', 'Connections that the kernel tracks, of any kind.', ({ entries }) => entries);
  gauge('max', 'How many connections the kernel can track (nf_conntrack_max).', ({ max }) => max);
  new Counter({
    name: 'nodewall_egress_conntrack_failures_total',
    help: 'Failures of connection tracking since boot: insert_failed counts collisions of translated ports.',
    labelNames: ['kind'],
    registers,
    async collect() {
      const pressure = await readPressure();
      this.reset();
      for (const [kind, count] of Object.entries(pressure?.failures ?? {})) this.inc({ kind }, count);
    },
  });
}
