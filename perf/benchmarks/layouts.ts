import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { KIND_TITLES, type Kind, ruleSet } from '../generate/kinds.ts';
import { LAYOUT_TITLES, LAYOUTS, type Layout, prepare } from '../layouts/layouts.ts';
import { type Rate, ratesByTurns } from '../measure/connections.ts';
import {
  amount,
  atLeast,
  type Benchmark,
  type Chart,
  type Figure,
  figure,
  type Settings,
} from '../measure/figure.ts';
import { median } from '../measure/statistics.ts';

const KINDS = ['ports', 'onePort'] as const satisfies readonly Kind[];
const SIZES = [0, 100, 1000, 5000, 10_000] as const;
const QUICK_SIZES = [1000] as const;

interface Rivals {
  readonly own: Layout;
  readonly others: readonly Layout[];
  /** Where nodewall should win, and by how much, by number of rules. */
  readonly atLeast: Readonly<Partial<Record<Kind, Readonly<Record<number, number>>>>>;
}

const PEERS = ['iptablesLegacy', 'iptablesNft'] as const satisfies readonly Layout[];
const FLAT: Readonly<Record<number, number>> = { 1000: 2.5, 5000: 8 };
/**
 * nodewall against a rule of iptables with ipset for each policy rule; in iptables each by the same
 * variant, and by ports alone: there is no look-up of addresses.
 */
const RIVALS: readonly Rivals[] = [
  { own: 'nodewall', others: PEERS, atLeast: { ports: FLAT, onePort: FLAT } },
  { own: 'nodewallIptablesLegacy', others: ['iptablesLegacy'], atLeast: { ports: { 1000: 2 } } },
  { own: 'nodewallIptablesNft', others: ['iptablesNft'], atLeast: { ports: { 1000: 2 } } },
];

type Rates = Readonly<Record<Layout, Rate[]>>;

export const layouts: Benchmark = {
  name: 'layouts',
  title: 'side by side',
  how: '`test/probe crr`: connect, one byte each way, close, one at a time, from a client namespace, client and server on one processor at a high priority, so that the rate is the cost of a whole connection. The same rules in every firewall, the last of them lets the client in. In each of two rounds all firewalls are loaded into new namespaces beside each other, and measured by turns in four bursts of 0.4 s (one round of three bursts of 0.3 s in a run of all benchmarks), tracked connections flushed before each. A share is of the empty stateful table in the same turn; processor time is that of client and server (getrusage, schedstat), the packets’ way through the kernel included; in the notes the whole machine’s (/proc/stat), other work on it included.',
  charts: KINDS.flatMap((kind) => [
    chart(kind, 'share', 'connections a second, % of the empty stateful table'),
    chart(kind, 'cpu', 'processor time a connection, µs'),
  ]),
  async run(settings) {
    const figures: Figure[] = [];
    for (const kind of KINDS) {
      const bySize = new Map<number, Rates>();
      for (const size of settings.quick ? QUICK_SIZES : SIZES)
        bySize.set(size, await measure(kind, size, settings));
      figures.push(...toFigures(kind, bySize));
    }
    return figures;
  },
};

function chart(kind: Kind, name: 'share' | 'cpu', y: string): Chart {
  const title = name === 'share' ? 'New connections' : 'Processor time of a new connection';
  return { name: `${kind}-${name}`, title: `${title}: ${KIND_TITLES[kind]}`, x: 'rules', y };
}

async function measure(kind: Kind, size: number, settings: Settings): Promise<Rates> {
  const folder = join(settings.folder, `${kind}-${size}`);
  await mkdir(folder, { recursive: true });
  const { set, load } = await prepare(ruleSet(kind, size), folder);
  const times = amount(settings, [
    { rounds: 1, bursts: 2, seconds: 0.25 },
    { rounds: 1, bursts: 3, seconds: 0.3 },
    { rounds: 2, bursts: 4, seconds: 0.4 },
  ]);
  return ratesByTurns({ connection: set.connection, names: LAYOUTS, load, ...times });
}

function toFigures(kind: Kind, bySize: ReadonlyMap<number, Rates>): Figure[] {
  const points = [...bySize].flatMap(([size, rates]) =>
    LAYOUTS.flatMap((layout) => {
      const series = LAYOUT_TITLES[layout];
      const what = `${series}, ${size.toLocaleString('en')} rules, ${KIND_TITLES[kind]}`;
      const point = (name: string) => ({ point: { chart: `${kind}-${name}`, series, x: size } });
      const note = `${Math.round(median(rates[layout].map(({ perSecond }) => perSecond)))} connections a second`;
      return [
        figure(what, '%', ratios(rates, layout, 'stateful', 100), { ...point('share'), note }),
        figure(
          what,
          'µs',
          rates[layout].map(({ own }) => own),
          {
            ...point('cpu'),
            note: `whole machine ${median(rates[layout].map(({ busy }) => busy)).toFixed(1)} µs`,
          },
        ),
      ];
    }),
  );
  const targets = [...bySize].flatMap(([size, rates]) =>
    RIVALS.flatMap(({ own, others, atLeast: wanted }) => {
      const least = wanted[kind]?.[size];
      return least === undefined
        ? []
        : others.map((other) => {
            const what = `${LAYOUT_TITLES[own]} against ${LAYOUT_TITLES[other]}, ${size.toLocaleString('en')} rules, ${KIND_TITLES[kind]}`;
            return figure(what, '×', ratios(rates, own, other, 1), { target: atLeast(least) });
          });
    }),
  );
  return [...targets, ...points];
}

/** Of the same turn. */
function ratios(rates: Rates, layout: Layout, against: Layout, factor: number): number[] {
  return rates[layout].map(
    ({ perSecond }, i) => (factor * perSecond) / (rates[against][i]?.perSecond ?? Number.NaN),
  );
}
