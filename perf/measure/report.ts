import { execFile } from 'node:child_process';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chartSvg, gridOf } from './chart.ts';
import { type Benchmark, type Chart, type Figure, isReached } from './figure.ts';
import type { Machine } from './machine.ts';
import type { ResultsFile } from './results.ts';

export interface Measured {
  readonly benchmark: Benchmark;
  readonly figures: readonly Figure[];
  /** Load average before and after. */
  readonly load: readonly [number, number];
  /** How long it took. */
  readonly seconds: number;
  /** Why there are no figures. */
  readonly failure: string | null;
  /** When, and of which revision. */
  readonly at: string;
  /** The machine in one line; null in results of before it was recorded. */
  readonly machine: string | null;
}

export interface Results {
  readonly machine: Machine;
  readonly measured: readonly Measured[];
  readonly quick: boolean;
}

const RESULTS = join(import.meta.dirname, '..', 'results');
const BIOME = join(import.meta.dirname, '..', '..', 'node_modules', '.bin', 'biome');

/**
 * JSON, Markdown and the charts it embeds; beside each other under `build/` unless the run was
 * complete. Returns the paths of the first two.
 */
export async function writeResults(results: Results, complete: boolean): Promise<string[]> {
  const folder = complete ? RESULTS : join(RESULTS, 'build');
  await mkdir(folder, { recursive: true });
  const paths = [join(folder, 'results.json'), join(folder, 'README.md')] as const;
  await writeFile(paths[0], `${JSON.stringify(toFile(results), null, 1)}\n`);
  await writeFile(paths[1], markdown(results));
  await writeCharts(folder, results);
  // So that `npm run check` has nothing to say about it.
  if (complete) await promisify(execFile)(BIOME, ['format', '--write', paths[0]]);
  return [...paths];
}

async function writeCharts(folder: string, { measured }: Results): Promise<void> {
  for (const name of await readdir(folder)) if (name.endsWith('.svg')) await rm(join(folder, name));
  for (const { benchmark, figures } of measured)
    for (const chart of chartsOf(benchmark, figures))
      await writeFile(join(folder, svgName(benchmark, chart)), chartSvg(chart, figures));
}

function chartsOf({ charts = [] }: Benchmark, figures: readonly Figure[]): Chart[] {
  return charts.filter((chart) => gridOf(chart, figures).xs.length > 0);
}

function svgName({ name }: Benchmark, chart: Chart): string {
  return `${name}-${chart.name}.svg`;
}

/** What a results file says of benchmarks that are still there. */
export function fromFile({ benchmarks, machine }: ResultsFile, known: readonly Benchmark[]): Measured[] {
  return benchmarks.flatMap((one): Measured[] => {
    const benchmark = known.find(({ name }) => name === one.name);
    if (benchmark === undefined) return [];
    const {
      load: [before = Number.NaN, after = Number.NaN],
      seconds = Number.NaN,
      failure = null,
    } = one;
    const figures = one.figures.map((figure): Figure => ({ ...figure, point: figure.point ?? null }));
    const at = one.at ?? stamp(machine);
    const place = one.machine ?? (at === stamp(machine) ? machineText(machine) : null);
    return [{ benchmark, figures, load: [before, after], seconds, failure, at, machine: place }];
  });
}

/** When, and of which revision. */
export function stamp({ date, revision, dirty }: Machine): string {
  return `${date.slice(0, 16).replace('T', ' ')} UTC, revision ${revision}${dirty ? ' with uncommitted changes' : ''}`;
}

/** Its processors, memory and programs. */
export function machineText({ cpu, cores, memory, kernel, nft, node }: Machine): string {
  return `${cores} × ${cpu}, ${memory} GB; kernel ${kernel}, nft ${nft}, Node.js ${node}`;
}

function toFile({ machine, measured, quick }: Results): ResultsFile {
  return {
    machine,
    quick,
    benchmarks: measured.map((one) => ({
      name: one.benchmark.name,
      title: one.benchmark.title,
      how: one.benchmark.how,
      load: one.load,
      seconds: Math.round(one.seconds),
      at: one.at,
      machine: one.machine,
      failure: one.failure,
      figures: one.figures.map((figure) => ({ ...figure, reached: isReached(figure) })),
    })),
  };
}

export function markdown({ measured, quick }: Results): string {
  const minutes = measured.reduce((sum, { seconds }) => sum + seconds, 0) / 60;
  return [
    '# Measured',
    '',
    `Made by \`npm run perf\`${quick ? ' with `--quick`: few trials, a first look' : ''}; not edited by hand. Run it again: \`npm run perf\`, one row: \`npm run perf -- NAME\` (NAME stands in each heading).`,
    '',
    `The times below add up to ${minutes.toFixed(0)} minutes; what was measured by its name takes longer than in a run of all.`,
    '',
    '## The targets',
    '',
    'The last column is the day and the revision of the measurement; the section of each benchmark names the machine, where it was recorded.',
    '',
    ...targetTable(measured),
    ...measured.flatMap(section),
    '',
  ].join('\n');
}

/** The figures that have a target, each with its day and revision. */
function targetTable(measured: readonly Measured[]): string[] {
  const rows = measured.flatMap(({ figures, at }) => {
    const [, day = at, revision = ''] = /^(\S+) .*revision (.{8})/.exec(at) ?? [];
    const withTarget = figures.filter(({ target }) => target !== null);
    return withTarget.map((figure) => [...cells(figure), `${day}, ${revision}`]);
  });
  return [[...HEADER, 'measured'], [...HEADER, 'measured'].map(() => '---'), ...rows].map(row);
}

function section({ benchmark, figures, load, seconds, failure, at, machine }: Measured): string[] {
  const charts = chartsOf(benchmark, figures);
  const listed = figures.filter(({ point }) => point === null);
  return [
    '',
    `## ${benchmark.name}: ${benchmark.title}`,
    '',
    benchmark.how,
    `${at}; ${machine ?? 'the machine was not recorded'}. Load average before and after: ${load.join(', ')}; ${seconds.toFixed(0)} s.`,
    ...(failure === null ? [] : ['', `**It failed:** ${failure}`]),
    ...(listed.length === 0 ? [] : ['', ...markdownTable(listed)]),
    ...charts.flatMap((chart) => [
      '',
      `![${chart.title}](${svgName(benchmark, chart)})`,
      '',
      `${chart.title}: ${chart.y}, by ${chart.x}; median (min – max).`,
      '',
      ...gridTable(chart, figures),
    ]),
  ];
}

const HEADER = ['what', 'to reach', 'median', 'min – max', 'trials', 'reached', 'note'];
const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;

function markdownTable(figures: readonly Figure[]): string[] {
  return [row(HEADER), row(HEADER.map(() => '---')), ...figures.map((one) => row(cells(one)))];
}

function gridTable(chart: Chart, figures: readonly Figure[]): string[] {
  const { xs, series, at } = gridOf(chart, figures);
  const cell = (one: Figure | undefined): string => {
    if (one === undefined) return '';
    const { median, min, max } = one.summary;
    return min === max ? number(median) : `${number(median)} (${number(min)} – ${number(max)})`;
  };
  return [
    row([chart.x, ...series]),
    row(['---', ...series.map(() => '---')]),
    ...xs.map((x) =>
      row([typeof x === 'number' ? x.toLocaleString('en') : x, ...series.map((name) => cell(at(x, name)))]),
    ),
  ];
}

/** For a terminal. */
export function figureTable(figures: readonly Figure[]): string {
  const rows = [HEADER, ...figures.map(cells)];
  const widths = HEADER.map((_, i) => Math.max(...rows.map((cells) => cells[i]?.length ?? 0)));
  return rows
    .map((cells) => `  ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')}`.trimEnd())
    .join('\n');
}

function cells(figure: Figure): string[] {
  const { what, unit, target, summary, note } = figure;
  const { median, min, max, trials } = summary;
  const reached = isReached(figure);
  return [
    what,
    target === null ? '' : `${target.at === 'most' ? '≤' : '≥'} ${target.value} ${unit}`,
    `${number(median)} ${unit}`,
    `${number(min)} – ${number(max)}`,
    String(trials),
    reached === null ? '' : reached ? 'yes' : 'no',
    note,
  ];
}

/** Three digits that count. */
function number(value: number): string {
  if (Number.isNaN(value)) return '–';
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en');
  return value.toPrecision(3).replace(/\.0+$/, '');
}
