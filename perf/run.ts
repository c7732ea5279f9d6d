/**
 * `npm run perf [-- NAME … --quick]`: runs the benchmarks one after the other, prints a table,
 * writes perf/results; `--compare A B` sets two of those side by side.
 */

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { errorMessage } from '../lib/sharing/error.ts';
import { admission } from './benchmarks/admission.ts';
import { adviseBenchmark } from './benchmarks/advise.ts';
import { allNodes } from './benchmarks/all-nodes.ts';
import { firstApply } from './benchmarks/apply.ts';
import { boot } from './benchmarks/boot.ts';
import { churn } from './benchmarks/churn.ts';
import { cluster } from './benchmarks/cluster.ts';
import { compileRender } from './benchmarks/compile.ts';
import { controlPlane } from './benchmarks/control-plane.ts';
import { denied } from './benchmarks/denied.ts';
import { difference } from './benchmarks/difference.ts';
import { egress } from './benchmarks/egress.ts';
import { egressApply } from './benchmarks/egress-apply.ts';
import { egressFailover } from './benchmarks/egress-failover.ts';
import { egressRecords } from './benchmarks/egress-records.ts';
import { egressStart } from './benchmarks/egress-start.ts';
import { egressTraffic } from './benchmarks/egress-traffic.ts';
import { established } from './benchmarks/established.ts';
import { explainFlagship, explainFlows } from './benchmarks/explain.ts';
import { flowImpact } from './benchmarks/flow-impact.ts';
import { flowInventory } from './benchmarks/flow-inventory.ts';
import { idle } from './benchmarks/idle.ts';
import { index } from './benchmarks/index.ts';
import { interfaces } from './benchmarks/interfaces.ts';
import { iptables } from './benchmarks/iptables.ts';
import { kept } from './benchmarks/kept.ts';
import { kinds } from './benchmarks/kinds.ts';
import { layouts } from './benchmarks/layouts.ts';
import { leases } from './benchmarks/leases.ts';
import { members } from './benchmarks/members.ts';
import { memory } from './benchmarks/memory.ts';
import { names as namesBenchmark } from './benchmarks/names.ts';
import { publish } from './benchmarks/publish.ts';
import { rate } from './benchmarks/rate.ts';
import { record } from './benchmarks/record.ts';
import { replicas } from './benchmarks/replicas.ts';
import { routes } from './benchmarks/routes.ts';
import { save } from './benchmarks/save.ts';
import { scale } from './benchmarks/scale.ts';
import { start } from './benchmarks/start.ts';
import { throughput } from './benchmarks/throughput.ts';
import { compareResults, comparisonText, missingFigures } from './measure/compare.ts';
import type { Benchmark, Figure } from './measure/figure.ts';
import { describeMachine, load } from './measure/machine.ts';
import {
  figureTable,
  fromFile,
  type Measured,
  machineText,
  type Results,
  stamp,
  writeResults,
} from './measure/report.ts';
import { type ResultsFile, readResults } from './measure/results.ts';

const BENCHMARKS: readonly Benchmark[] = [
  explainFlagship,
  explainFlows,
  compileRender,
  controlPlane,
  egress,
  egressFailover,
  egressApply,
  egressStart,
  egressTraffic,
  egressRecords,
  leases,
  admission,
  cluster,
  firstApply,
  boot,
  save,
  members,
  iptables,
  interfaces,
  routes,
  established,
  difference,
  adviseBenchmark,
  flowImpact,
  memory,
  publish,
  allNodes,
  replicas,
  namesBenchmark,
  rate,
  record,
  flowInventory,
  idle,
  kinds,
  layouts,
  denied,
  kept,
  throughput,
  scale,
  start,
  index,
  churn,
];

const USAGE = `npm run perf -- [--quick] [NAME …]     names: ${BENCHMARKS.map(({ name }) => name).join(', ')}
npm run perf -- --update NAME …        measures these anew and puts them into the last complete results
npm run perf -- --compare A B          two results.json, or folders with one; status 1 where B is slower beyond the spread, or lacks a figure`;
const say = (line: string) => process.stdout.write(`${line}\n`);
process.exitCode = await main();

/** The status to exit with: 1 slower, 2 wrong arguments, 3 not root. */
async function main(): Promise<number> {
  const options = {
    quick: { type: 'boolean', default: false },
    compare: { type: 'boolean', default: false },
    update: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  } as const;
  let parsed: ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>;
  try {
    parsed = parseArgs({ options, allowPositionals: true });
  } catch (error) {
    say(`${(error as Error).message}\n${USAGE}`);
    return 2;
  }
  const { values, positionals } = parsed;
  if (values.help) {
    say(USAGE);
    return 0;
  }
  if (values.compare) return compare(positionals);
  const unknown = positionals.filter((name) => !BENCHMARKS.some((one) => one.name === name));
  if (unknown.length > 0) {
    say(`no benchmark is called ${unknown.join(', ')}\n${USAGE}`);
    return 2;
  }
  if (process.getuid?.() !== 0) {
    say('the benchmarks make network namespaces: run them as root');
    return 3;
  }
  if (values.update && (positionals.length === 0 || values.quick)) {
    say(`--update needs names, and no --quick\n${USAGE}`);
    return 2;
  }
  return (await runAll(positionals, values)) ? 0 : 1;
}

async function compare([before, after, ...more]: readonly string[]): Promise<number> {
  if (before === undefined || after === undefined || more.length > 0) {
    say(USAGE);
    return 2;
  }
  let results: readonly [ResultsFile, ResultsFile];
  try {
    results = [await readResults(before), await readResults(after)];
  } catch (error) {
    say((error as Error).message);
    return 2;
  }
  const differences = compareResults(...results);
  const missing = missingFigures(...results);
  say(comparisonText(differences, missing).trimEnd());
  return missing.length > 0 || differences.some(({ judgement }) => judgement === 'slower') ? 1 : 0;
}

/** False: a benchmark failed. */
async function runAll(
  names: readonly string[],
  { quick, update }: { readonly quick: boolean; readonly update: boolean },
): Promise<boolean> {
  const machine = await describeMachine();
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-perf-'));
  const measured: Measured[] = [];
  try {
    for (const benchmark of BENCHMARKS) {
      if (names.length > 0 && !names.includes(benchmark.name)) continue;
      say(`${benchmark.name}: ${benchmark.title} …`);
      const own = join(folder, benchmark.name);
      await mkdir(own);
      const before = load();
      const start = performance.now();
      let figures: readonly Figure[] = [];
      let failure: string | null = null;
      try {
        figures = await benchmark.run({ quick, folder: own, named: names.length > 0 });
      } catch (error) {
        // An hour's other figures are not lost for it.
        failure = errorMessage(error);
        say(`${benchmark.name} failed: ${error instanceof Error ? error.stack : failure}`);
      }
      const seconds = (performance.now() - start) / 1000;
      const now = await describeMachine();
      measured.push({
        benchmark,
        figures,
        load: [before, load()],
        seconds,
        failure,
        at: stamp(now),
        machine: machineText(now),
      });
      await rm(own, { recursive: true });
      say(`${figureTable(figures)}\n  ${benchmark.name} took ${seconds.toFixed(0)} s`);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  // A part or a first look never replaces the committed result.
  const complete = names.length === 0 && !quick;
  const results = update ? await updated(measured) : { machine, measured, quick };
  const written = await writeResults(results, complete || update);
  say(`written: ${written.join(', ')}`);
  return measured.every(({ failure }) => failure === null);
}

/**
 * The committed results, some of them measured anew; a benchmark that failed keeps its last ones.
 */
async function updated(anew: readonly Measured[]): Promise<Results> {
  const last = await readResults(join(import.meta.dirname, 'results'));
  const known = fromFile(last, BENCHMARKS);
  const succeeded = anew.filter(({ failure }) => failure === null);
  const measured = BENCHMARKS.flatMap(
    ({ name }) => [...succeeded, ...known].find(({ benchmark }) => benchmark.name === name) ?? [],
  );
  return { machine: last.machine, measured, quick: false };
}
