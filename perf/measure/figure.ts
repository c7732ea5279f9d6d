import { type Summary, summarise } from './statistics.ts';

/** One measured thing: a row of the table that a run prints. */
export interface Figure {
  readonly what: string;
  readonly unit: Unit;
  /** Null where the figure is there for comparison. */
  readonly target: Target | null;
  readonly summary: Summary;
  readonly values: readonly number[];
  readonly note: string;
  /** Where it stands in a chart of its benchmark; null: in the list alone. */
  readonly point: Point | null;
}

export type Unit =
  | 'ms'
  | 's'
  | 'MB'
  | '%'
  | '1/s'
  | 'µs'
  | '×'
  | 'Mbit/s'
  | 'rules'
  | 'views'
  | 'packets'
  | 'processes'
  | 'B';

export interface Target {
  readonly at: 'most' | 'least';
  readonly value: number;
}

interface Point {
  /** Name of the chart. */
  readonly chart: string;
  readonly series: string;
  /** A size, or one of several kinds. */
  readonly x: number | string;
}

/** Lines where x is a number, bars where it is a name. */
export interface Chart {
  /** Part of a file name. */
  readonly name: string;
  readonly title: string;
  readonly x: string;
  readonly y: string;
}

interface FigureOptions {
  readonly target?: Target | null;
  readonly note?: string;
  readonly point?: Point | null;
}

export function figure(
  what: string,
  unit: Unit,
  values: readonly number[],
  { target = null, note = '', point = null }: FigureOptions = {},
): Figure {
  return { what, unit, target, summary: summarise(values), values: values.map(rounded), note, point };
}

export function atMost(value: number): Target {
  return { at: 'most', value };
}

export function atLeast(value: number): Target {
  return { at: 'least', value };
}

/** Judged by the median; null where there is no target. */
export function isReached({ target, summary }: Pick<Figure, 'target' | 'summary'>): boolean | null {
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
  readonly charts?: readonly Chart[];
  run(settings: Settings): Promise<Figure[]>;
}

export interface Settings {
  readonly quick: boolean;
  /** An empty folder for the benchmark alone. */
  readonly folder: string;
  /** The benchmark was asked for by its name, alone or with others. */
  readonly named: boolean;
}

/** How much is measured in a first look, in a run of all benchmarks, and in one by its name. */
type Amounts<T> = readonly [quick: T, ofAll: T, byName: T];

/** All benchmarks shall take an hour together: long ones measure less there than by name. */
export function amount<T>({ quick, named }: Settings, [first, ofAll, byName]: Amounts<T>): T {
  if (quick) return first;
  return named ? byName : ofAll;
}

/** The number of trials; 3 at most in a first look. */
export function trials(settings: Settings, byName: number, ofAll = byName): number {
  return amount(settings, [Math.min(3, byName), ofAll, byName]);
}
