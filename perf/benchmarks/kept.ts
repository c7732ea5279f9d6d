/** New connections that a node keeps while packets arrive that it denies. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Namespace } from '../../test/netns/namespace.ts';
import { type Flood, readyForFlood, startFlood } from '../inject/inject.ts';
import { ALLOWED, type PreparedRules, prepareDenying } from '../layouts/denying.ts';
import { DROP_TITLES, dropText, loadText } from '../layouts/drops.ts';
import { type Bench, openBench, rotated } from '../measure/connections.ts';
import { amount, type Benchmark, type Figure, figure, type Settings } from '../measure/figure.ts';
import { median } from '../measure/statistics.ts';

/** What denies the flood. */
const DENIERS = ['native', 'raw', 'input', 'nodewall'] as const;
type Denier = (typeof DENIERS)[number];
/** Packets a second; 0: the rate that is kept of. */
const RATES = [0, 100_000, 300_000] as const;

export const kept: Benchmark = {
  name: 'kept',
  title: 'new connections under a denied flood',
  how: 'TCP_CRR as in `rate`, through the last rule but one, while SYNs to the same port, denied by the last rule, arrive on the same processor at a rate: perf/inject as in `denied`, in bursts of 2 ms, before every process, as a driver’s interrupts come. What denies them is by turns nodewall, one nft rule at the same hook or at raw priority, or an XDP program; a share is of the same firewall without a flood in the same turn.',
  async run(settings) {
    const size = settings.quick ? 1000 : 10_000;
    const rules = await prepareDenying({ kind: 'ports', size, protocol: 'syn' }, settings.folder);
    return measure(rules, settings);
  },
};

/** `rules` are for the flood. */
async function measure(rules: PreparedRules, settings: Settings): Promise<Figure[]> {
  const shares = new Map<string, number[]>();
  const quiet = new Map<Denier, number[]>();
  for (let round = 0; round < amount(settings, [1, 1, 2]); round++) {
    const places = await openAll(rules);
    try {
      for (let turn = 0; turn < amount(settings, [2, 4, 6]); turn++)
        for (const { denier, node, bench } of rotated(places, turn)) {
          let alone = Number.NaN;
          for (const perSecond of RATES) {
            const rate = await rateUnderFlood(node, bench, { perSecond, flood: floodOf(denier) });
            if (perSecond === 0) {
              alone = rate;
              add(quiet, denier, rate);
            } else add(shares, `${denier} ${perSecond}`, (100 * rate) / alone);
          }
        }
    } finally {
      for (const { bench } of places) await bench.close();
    }
  }
  return toFigures(rules.title, shares, quiet);
}

async function openAll(rules: PreparedRules) {
  const places: { denier: Denier; node: Namespace; bench: Bench }[] = [];
  try {
    for (const denier of DENIERS) {
      const nodes: Namespace[] = [];
      const bench = await openBench({
        connection: ALLOWED,
        async load(node) {
          nodes.push(node);
          await readyForFlood(node);
          await (denier === 'nodewall' ? rules.load(node) : loadText(node, dropText(denier)));
        },
      });
      for (const node of nodes) places.push({ denier, node, bench });
    }
    return places;
  } catch (error) {
    for (const { bench } of places) await bench.close();
    throw error;
  }
}

function floodOf(denier: Denier): Flood {
  const { destination, port } = ALLOWED;
  return { protocol: 'syn', destination, port, way: denier === 'native' ? 'native' : 'pass' };
}

const SECONDS = 0.5;

/** Connections a second. */
async function rateUnderFlood(
  node: Namespace,
  bench: Bench,
  { perSecond, flood }: { readonly perSecond: number; readonly flood: Flood },
): Promise<number> {
  if (perSecond === 0) return (await bench.measure(SECONDS)).perSecond;
  const stop = await startFlood(node, flood, perSecond);
  await pause(200);
  const measured = await bench.measure(SECONDS).catch((error: Error) => error);
  const received = await stop();
  if (measured instanceof Error) throw measured;
  if (received < 0.8 * perSecond) throw new Error(`${received} packets a second, not ${perSecond}`);
  return measured.perSecond;
}

function add<Key>(lists: Map<Key, number[]>, key: Key, value: number): void {
  const list = lists.get(key) ?? [];
  lists.set(key, [...list, value]);
}

function toFigures(
  nodewall: string,
  shares: ReadonlyMap<string, readonly number[]>,
  quiet: ReadonlyMap<Denier, readonly number[]>,
): Figure[] {
  const title = (denier: Denier) => (denier === 'nodewall' ? nodewall : DROP_TITLES[denier]);
  return RATES.filter((rate) => rate > 0).flatMap((rate) =>
    DENIERS.map((denier) =>
      figure(
        `new connections kept under ${rate.toLocaleString('en')} denied SYNs/s: ${title(denier)}`,
        '%',
        shares.get(`${denier} ${rate}`) ?? [],
        {
          note: `of ${median(quiet.get(denier) ?? []).toLocaleString('en', { maximumFractionDigits: 0 })} 1/s without a flood`,
        },
      ),
    ),
  );
}
