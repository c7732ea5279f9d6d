/** `npm run perf [-- NAME … --quick]`: runs the benchmarks one after the other, prints a table, writes perf/results. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { firstApply } from './benchmarks/apply.ts';
import { compileRender } from './benchmarks/compile.ts';
import { explainFlagship, explainFlows } from './benchmarks/explain.ts';
import { idle } from './benchmarks/idle.ts';
import { interfaces } from './benchmarks/interfaces.ts';
import { members } from './benchmarks/members.ts';
import { memory } from './benchmarks/memory.ts';
import { names as namesBenchmark } from './benchmarks/names.ts';
import { rate } from './benchmarks/rate.ts';
import { record } from './benchmarks/record.ts';
import { save } from './benchmarks/save.ts';
import type { Benchmark } from './measure/figure.ts';
import { describeMachine, load } from './measure/machine.ts';
import { figureTable, type Measured, writeResults } from './measure/report.ts';

const BENCHMARKS: readonly Benchmark[] = [
  explainFlagship,
  explainFlows,
  compileRender,
  firstApply,
  save,
  members,
  interfaces,
  memory,
  namesBenchmark,
  rate,
  record,
  idle,
];

const names = process.argv.slice(2).filter((word) => !word.startsWith('-'));
const quick = process.argv.includes('--quick');
const known = BENCHMARKS.map(({ name }) => name);
const unknown = names.filter((name) => !known.includes(name));
const say = (line: string) => process.stdout.write(`${line}\n`);

if (unknown.length > 0 || process.argv.includes('--help')) {
  say(`npm run perf -- [--quick] [NAME …]     names: ${known.join(', ')}`);
  process.exitCode = unknown.length > 0 ? 2 : 0;
} else if (process.getuid?.() !== 0) {
  say('the benchmarks make network namespaces: run them as root');
  process.exitCode = 3;
} else await runAll();

async function runAll(): Promise<void> {
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
      const figures = await benchmark.run({ quick, folder: own });
      measured.push({ benchmark, figures, load: [before, load()] });
      await rm(own, { recursive: true });
      say(figureTable(figures));
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  // A part or a first look never replaces the committed result.
  const complete = names.length === 0 && !quick;
  const written = await writeResults({ machine, measured, quick }, complete);
  say(`written: ${written.join(', ')}`);
}
