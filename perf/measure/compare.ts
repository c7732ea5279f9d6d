import type { FigureResult, ResultsFile } from './results.ts';
import { median } from './statistics.ts';

/** One figure that both runs have. */
export interface Difference {
  readonly benchmark: string;
  readonly what: string;
  readonly unit: string;
  readonly before: number;
  readonly after: number;
  /** Of the first run's median; 0.1 is ten percent more. */
  readonly change: number;
  readonly judgement: 'slower' | 'faster' | 'same';
}

/** Where there is no spread to go by. */
const ALONE = 0.1;
/** What two runs of the same code may differ by, whatever their spread within a run. */
const LEAST = 0.03;

/**
 * Figure by figure, those alone that both have and that tell which direction is better. Slower (or
 * faster) is a median that is more than 3 % worse and beyond the spread: outside of what all trials
 * of the other run gave, both ways round. Single trials have no spread; there it is 10 %.
 */
export function compareResults(before: ResultsFile, after: ResultsFile): Difference[] {
  const known = figuresByKey(before);
  return [...figuresByKey(after)].flatMap(([key, { benchmark, figure }]) => {
    const old = known.get(key)?.figure;
    const better = betterOf(figure);
    if (old === undefined || old.unit !== figure.unit || better === null) return [];
    return [difference(benchmark, old, figure, better)];
  });
}

function difference(
  benchmark: string,
  old: FigureResult,
  figure: FigureResult,
  better: 'more' | 'less',
): Difference {
  const [a, b] = [median(numbers(old)), median(numbers(figure))];
  const change = a === 0 ? (b === 0 ? 0 : Number.POSITIVE_INFINITY) : b / a - 1;
  const hasSpread = numbers(old).length > 1 && numbers(figure).length > 1;
  const isBeyond = hasSpread
    ? Math.abs(change) > LEAST && isOutside(b, numbers(old)) && isOutside(a, numbers(figure))
    : Math.abs(change) > ALONE;
  const isWorse = better === 'more' ? change < 0 : change > 0;
  return {
    benchmark,
    what: figure.what,
    unit: figure.unit,
    before: a,
    after: b,
    change,
    judgement: !isBeyond ? 'same' : isWorse ? 'slower' : 'faster',
  };
}

/** Something that could not be measured is null in JSON. */
function numbers({ values }: FigureResult): number[] {
  return values.filter((value) => Number.isFinite(value));
}

function isOutside(value: number, values: readonly number[]): boolean {
  return value < Math.min(...values) || value > Math.max(...values);
}

function betterOf({ target, unit }: FigureResult): 'more' | 'less' | null {
  if (target !== null) return target.at === 'least' ? 'more' : 'less';
  switch (unit) {
    case '1/s':
    case 'Mbit/s':
      return 'more';
    case 'ms':
    case 's':
    case 'µs':
    case 'MB':
    case 'rules':
    case 'processes':
    case 'views':
    case 'packets':
    case 'B':
      return 'less';
    // A share or a ratio without a target may be of anything.
    case '%':
    case '×':
      return null;
  }
}

/** Several figures of a benchmark may be called the same ("… peak"): they count up. */
function figuresByKey({ benchmarks }: ResultsFile) {
  const found = new Map<string, { benchmark: string; figure: FigureResult }>();
  for (const { name: benchmark, figures } of benchmarks) {
    const seen = new Map<string, number>();
    for (const figure of figures) {
      const name = `${benchmark}: ${figure.point?.chart ?? ''} ${figure.what}`;
      const count = seen.get(name) ?? 0;
      seen.set(name, count + 1);
      found.set(`${name} ${count}`, { benchmark, figure });
    }
  }
  return found;
}

/** Figures of the first run that the second doesn't have: a benchmark failed, or is gone. */
export function missingFigures(before: ResultsFile, after: ResultsFile): string[] {
  const known = figuresByKey(after);
  return [...figuresByKey(before)].flatMap(([key, { benchmark, figure }]) => {
    const there = known.get(key)?.figure;
    const isMeasured = there !== undefined && (numbers(there).length > 0 || numbers(figure).length === 0);
    return isMeasured ? [] : [`${benchmark}: ${figure.what}`];
  });
}

/** For a terminal; what is the same is counted. */
export function comparisonText(differences: readonly Difference[], missing: readonly string[] = []): string {
  const lines = (judgement: Difference['judgement']) =>
    differences
      .filter((one) => one.judgement === judgement)
      .map(
        ({ benchmark, what, unit, before, after, change }) =>
          `  ${judgement}: ${benchmark}: ${what}: ${digits(before)} → ${digits(after)} ${unit} (${change > 0 ? '+' : ''}${(100 * change).toFixed(1)} %)`,
      );
  const same = differences.filter(({ judgement }) => judgement === 'same').length;
  const gone = missing.map((what) => `  missing: ${what}`);
  return [
    ...gone,
    ...lines('slower'),
    ...lines('faster'),
    `${same} of ${differences.length} figures are the same`,
  ]
    .map((line) => `${line}\n`)
    .join('');
}

function digits(value: number): string {
  return String(Number(value.toPrecision(4)));
}
