import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { KIND_TITLES, KINDS, type Kind, ruleSet } from '../generate/kinds.ts';
import { prepare } from '../layouts/layouts.ts';
import { type Rate, ratesByTurns } from '../measure/connections.ts';
import { amount, atLeast, type Benchmark, type Figure, figure, type Settings } from '../measure/figure.ts';
import { median } from '../measure/statistics.ts';

const SIZES = [1000, 10_000] as const;
const AT_LEAST: Readonly<Record<(typeof SIZES)[number], number>> = { 1000: 97, 10000: 95 };
const LAYOUTS = ['stateful', 'nodewall'] as const;
type Rates = Record<(typeof LAYOUTS)[number], Rate[]>;

export const kinds: Benchmark = {
  name: 'kinds',
  title: 'every kind of rule set',
  how: 'As `layouts`, nodewall and the empty stateful table by turns in three rounds of seven bursts (one round of four bursts of 0.3 s in a run of all benchmarks), for each kind of rule set of perf/generate/kinds.ts; the access lists, firewalls and IP chains are in the mixes of ClassBench. Where something else wants the same processor rates swing and the processor time of both ends (see `layouts`) hardly does: the notes have that share, too.',
  charts: [
    {
      name: 'share',
      title: 'New connections by kind of rule set',
      x: 'kind',
      y: '% of the empty stateful table',
    },
    { name: 'cpu', title: 'Processor time of a new connection by kind of rule set', x: 'kind', y: 'µs' },
  ],
  async run(settings) {
    const figures: Figure[] = [];
    for (const size of settings.quick ? [1000 as const] : SIZES)
      for (const kind of KINDS) figures.push(...toFigures(kind, size, await measure(kind, size, settings)));
    return figures;
  },
};

async function measure(kind: Kind, size: number, settings: Settings): Promise<Rates> {
  const folder = join(settings.folder, `${kind}-${size}`);
  await mkdir(folder, { recursive: true });
  const { set, load } = await prepare(ruleSet(kind, size), folder);
  const times = amount(settings, [
    { rounds: 1, bursts: 4, seconds: 0.25 },
    { rounds: 1, bursts: 4, seconds: 0.3 },
    { rounds: 3, bursts: 7, seconds: 0.4 },
  ]);
  return ratesByTurns({ connection: set.connection, names: LAYOUTS, load, ...times });
}

function toFigures(kind: Kind, size: (typeof SIZES)[number], { stateful, nodewall }: Rates): Figure[] {
  const rules = `${size.toLocaleString('en')} rules`;
  const what = `TCP_CRR, ${rules}: ${KIND_TITLES[kind]}`;
  const shares = nodewall.map(
    ({ perSecond }, i) => (100 * perSecond) / (stateful[i]?.perSecond ?? Number.NaN),
  );
  const middle = (rates: readonly Rate[]) => median(rates.map(({ perSecond }) => perSecond));
  const cost = (rates: readonly Rate[]) => median(rates.map(({ own }) => own));
  const byTime = (100 * cost(stateful)) / cost(nodewall);
  const busy = (name: keyof Rates, rates: readonly Rate[]) =>
    figure(
      `${name === 'nodewall' ? 'nodewall' : 'empty stateful table'}, ${rules}: ${KIND_TITLES[kind]}`,
      'µs',
      rates.map(({ own }) => own),
      {
        point: {
          chart: 'cpu',
          series: name === 'nodewall' ? `nodewall, ${rules}` : `stateful (${rules})`,
          x: kind,
        },
      },
    );
  return [
    figure(what, '%', shares, {
      target: atLeast(AT_LEAST[size]),
      note: `medians against each other: ${((100 * middle(nodewall)) / middle(stateful)).toFixed(1)} %; by processor time of both ends ${byTime.toFixed(1)} %`,
      point: { chart: 'share', series: rules, x: kind },
    }),
    busy('nodewall', nodewall),
    busy('stateful', stateful),
  ];
}
