import { Counter, Gauge, type Registry } from 'prom-client';
import { type ConntrackPressure, readPressure } from '../egress/record/conntrack-pressure.ts';
import { egressCount } from '../egress/render/counted.ts';
import type { RuleTotals } from '../record/accounting.ts';

/** Policies with a label of their own; the rest is added up under OTHERS. */
const MOST_POLICIES = 1_000;
const OTHERS = '(others)';

/** The metrics of egress gateways: none before `begin`. */
export class EgressMetrics {
  readonly #registers: Registry[];
  readonly #totals: () => ReadonlyMap<string, RuleTotals>;
  #records: Counter | null = null;

  constructor(registers: Registry[], totals: () => ReadonlyMap<string, RuleTotals>) {
    this.#registers = registers;
    this.#totals = totals;
  }

  /** May be called again. */
  begin(): void {
    if (this.#records !== null) return;
    egressPackets(this.#registers, this.#totals);
    conntrackPressure(this.#registers);
    this.#records = new Counter({
      name: 'nodewall_egress_records_total',
      help: 'Lines of egress-records.jsonl by event, and those that could not be written (lost).',
      labelNames: ['event'],
      registers: this.#registers,
    });
  }

  records(event: string, lines: number): void {
    this.#records?.inc({ event }, lines);
  }
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
      ...{ name, help, registers, labelNames: [labelName] },
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
      ...{ name: `nodewall_egress_conntrack_${name}`, help, registers },
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
