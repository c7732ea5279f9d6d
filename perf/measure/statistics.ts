export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly trials: number;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Linear between neighbours. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const low = sorted[Math.floor(place)] ?? Number.NaN;
  const high = sorted[Math.ceil(place)] ?? Number.NaN;
  return low + (high - low) * (place - Math.floor(place));
}

export function summarise(values: readonly number[]): Summary {
  return {
    median: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
    trials: values.length,
  };
}
