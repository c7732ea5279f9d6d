import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Figure } from './figure.ts';
import type { Machine } from './machine.ts';

/** `results.json`: what a run measured. Newer fields may be absent in older files. */
export interface ResultsFile {
  readonly machine: Machine;
  readonly quick: boolean;
  readonly benchmarks: readonly BenchmarkResult[];
}

interface BenchmarkResult {
  readonly name: string;
  readonly title: string;
  readonly how: string;
  /** Load average before and after. */
  readonly load: readonly number[];
  readonly seconds?: number;
  /** When, and of which revision. */
  readonly at?: string;
  readonly machine?: string | null;
  /** Why there are no figures. */
  readonly failure?: string | null;
  readonly figures: readonly FigureResult[];
}

export type FigureResult = Pick<Figure, 'what' | 'unit' | 'target' | 'summary' | 'values' | 'note'> &
  Partial<Pick<Figure, 'point'>>;

/** `path`: the file, or the folder it is in. Throws where it is none. */
export async function readResults(path: string): Promise<ResultsFile> {
  const file = (await stat(path)).isDirectory() ? join(path, 'results.json') : path;
  const text = await readFile(file, 'utf8');
  try {
    const results = JSON.parse(text) as ResultsFile | null;
    if (isResults(results)) return results;
  } catch {
    // Told like anything else that is none.
  }
  throw new TypeError(`${file}: no results of npm run perf (results.json)`);
}

function isResults(results: ResultsFile | null): results is ResultsFile {
  return (
    Array.isArray(results?.benchmarks) &&
    results.benchmarks.every((one) => typeof one?.name === 'string' && Array.isArray(one.figures))
  );
}
