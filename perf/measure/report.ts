import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Benchmark, type Figure, isReached } from './figure.ts';
import type { Machine } from './machine.ts';

export interface Measured {
  readonly benchmark: Benchmark;
  readonly figures: readonly Figure[];
  /** Load average before and after. */
  readonly load: readonly [number, number];
}

export interface Results {
  readonly machine: Machine;
  readonly measured: readonly Measured[];
  readonly quick: boolean;
}

const RESULTS = join(import.meta.dirname, '..', 'results');
const BIOME = join(import.meta.dirname, '..', '..', 'node_modules', '.bin', 'biome');

/** JSON and Markdown; beside each other under `build/` unless the run was complete. Returns the paths. */
export async function writeResults(results: Results, complete: boolean): Promise<string[]> {
  const folder = complete ? RESULTS : join(RESULTS, 'build');
  await mkdir(folder, { recursive: true });
  const paths = [join(folder, 'results.json'), join(folder, 'README.md')] as const;
  await writeFile(paths[0], `${JSON.stringify(toJson(results), null, 1)}\n`);
  await writeFile(paths[1], markdown(results));
  // So that `npm run check` has nothing to say about it.
  if (complete) await promisify(execFile)(BIOME, ['format', '--write', paths[0]]);
  return [...paths];
}

function toJson({ machine, measured, quick }: Results): object {
  return {
    machine,
    quick,
    benchmarks: measured.map(({ benchmark: { name, title, how }, figures, load }) => ({
      name,
      title,
      how,
      load,
      figures: figures.map((figure) => ({ ...figure, reached: isReached(figure) })),
    })),
  };
}

function markdown({ machine, measured, quick }: Results): string {
  const { date, cpu, cores, memory, kernel, nft, node, revision, dirty } = machine;
  const all = measured.flatMap(({ figures }) => figures);
  return [
    '# Measured',
    '',
    `Made by \`npm run perf\`${quick ? ' with `--quick`: few trials, a first look' : ''}; not edited by hand. Run it again: \`npm run perf\`, one row: \`npm run perf -- NAME\` (NAME stands in each heading).`,
    '',
    `${date.slice(0, 16).replace('T', ' ')} UTC, revision ${revision}${dirty ? ' with uncommitted changes' : ''}; ${cores} × ${cpu}, ${memory} GB; kernel ${kernel}, nft ${nft}, Node.js ${node}.`,
    '',
    '## The targets',
    '',
    ...markdownTable(all.filter(({ target }) => target !== null)),
    ...measured.flatMap(({ benchmark, figures, load }) => [
      '',
      `## ${benchmark.name}: ${benchmark.title}`,
      '',
      benchmark.how,
      `Load average before and after: ${load.join(', ')} on ${cores} cores.`,
      '',
      ...markdownTable(figures),
    ]),
    '',
  ].join('\n');
}

const HEADER = ['what', 'to reach', 'median', 'min – max', 'trials', 'reached', 'note'];

function markdownTable(figures: readonly Figure[]): string[] {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [row(HEADER), row(HEADER.map(() => '---')), ...figures.map((one) => row(cells(one)))];
}

/** For a terminal. */
export function figureTable(figures: readonly Figure[]): string {
  const rows = [HEADER, ...figures.map(cells)];
  const widths = HEADER.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows
    .map((row) => `  ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')}`.trimEnd())
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
