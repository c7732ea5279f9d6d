import { CONTROL_PLANE, type NodeReport } from '../../apis/stream.ts';
import type { AgedReport } from './node-reports.ts';
import { parseReport } from './report.ts';

/**
 * Reports that one controller passes on to another: the body of `POST REPORTS_PATH`, and with all
 * reports the answer to `GET REPORTS_PATH`.
 */
export interface ReportBatch {
  readonly reports: readonly AgedReport[];
}

export const REPORTS_PATH = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}/nodereports`;

/** The size limit of a batch in a POST as JSON (bytes). */
export const MOST_BATCH = 4 << 20;

/** Returns the batch, or the first problem. Ages count from now on. */
export function parseBatch(value: unknown): ReportBatch | { readonly problem: string } {
  const { reports } = Object(value) as Partial<Record<keyof ReportBatch, unknown>>;
  if (!Array.isArray(reports)) return { problem: 'a batch must have a list `reports`' };
  const parsed: AgedReport[] = [];
  for (const [i, item] of reports.entries()) {
    const { report, age } = Object(item) as { report?: Partial<NodeReport>; age?: unknown };
    if (typeof age !== 'number' || !(age >= 0)) return { problem: `reports[${i}].age: must be milliseconds` };
    const found = parseReport(report, String(report?.node));
    if ('problems' in found) return { problem: `reports[${i}]: ${found.problems.join('; ')}` };
    parsed.push({ report: found, age });
  }
  return { reports: parsed };
}
