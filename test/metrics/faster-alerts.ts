import type { Alert } from '../../build/manifests/monitoring/alerts.ts';

/** How much faster than in production. */
export interface Speed {
  /** Of `for` and of ranges, `[15m]`. */
  readonly ranges: number;
  /** Of `offset 1d`. */
  readonly offsets: number;
}

const SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400 };

/** The same alert, whose times pass faster, so that a test need not wait for hours. */
export function faster(alert: Alert, { ranges, offsets }: Speed): Alert {
  const scaled = (time: string, speed: number): string => {
    const [, count, unit = ''] = /^(\d+)([mhd])$/.exec(time) ?? [];
    const seconds = Number(count) * (SECONDS[unit] ?? Number.NaN);
    if (Number.isNaN(seconds)) throw new Error(`${alert.name}: a time in m, h or d, not ${time}`);
    return `${Math.round((seconds * 1000) / speed)}ms`;
  };
  const expr = alert.expr
    .replaceAll(/\[(\w+)\]/g, (_, time) => `[${scaled(time, ranges)}]`)
    .replaceAll(/offset (\w+)/g, (_, time) => `offset ${scaled(time, offsets)}`);
  return { ...alert, expr, for: scaled(alert.for, ranges) };
}
