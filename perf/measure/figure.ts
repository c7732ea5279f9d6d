import { type Summary, summarise } from './statistics.ts';

/** One measured thing: a row of the table that a run prints. */
export interface Figure {
  readonly what: string;
  readonly unit: 'ms' | 's' | 'MB' | '%' | '1/s' | 'µs';
  /** Of issue 3's table; null where the figure is there for comparison. */
  readonly target: Target | null;
  readonly summary: Summary;
  readonly values: readonly number[];
  readonly note: string;
}

export interface Target {
  readonly at: 'most' | 'least';
  readonly value: number;
}

export function figure(
  what: string,
  unit: Figure['unit'],
  values: readonly number[],
  { target = null, note = '' }: { target?: Target | null; note?: string } = {},
): Figure {
  return { what, unit, target, summary: summarise(values), values: values.map(rounded), note };
}

export function atMost(value: number): Target {
  return { at: 'most', value };
}

export function atLeast(value: number): Target {
  return { at: 'least', value };
}

/** Judged by the median; null where there is no target. */
export function isReached({ target, summary }: Figure): boolean | null {
  if (target === null) return null;
  return target.at === 'most' ? summary.median <= target.value : summary.median >= target.value;
}

function rounded(value: number): number {
  return Number(value.toPrecision(5));
}

/** What a benchmark is given, and gives. */
export interface Benchmark {
  readonly name: string;
  readonly title: string;
  /** How it measures, in a sentence or two. */
  readonly how: string;
  run(settings: Settings): Promise<Figure[]>;
}

export interface Settings {
  readonly quick: boolean;
  /** An empty folder for the benchmark alone. */
  readonly folder: string;
}

/** Fewer trials where a first look is wanted. */
export function trials({ quick }: Settings, wanted: number): number {
  return quick ? Math.min(3, wanted) : wanted;
}
