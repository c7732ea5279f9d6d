import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { cached } from '../../build/programs/cache.ts';
import { output, run, unpackDebianPackage } from '../../build/programs/command.ts';

const PACKAGE = 'prometheus';

/** Folder with `promtool` and `prometheus` of this machine's Debian; 19 MB are downloaded once. */
export async function debianPrometheus(): Promise<string> {
  const version = await output(['apt-cache', 'policy', PACKAGE]);
  const candidate = /Candidate: (\S+)/.exec(version)?.[1] ?? '';
  const key = createHash('sha256').update(candidate).digest('hex').slice(0, 16);
  const folder = await cached('debianprometheus', key, (fresh) => unpackDebianPackage(PACKAGE, fresh));
  return join(folder, 'usr/bin');
}

/** To ask apt takes a second. */
let found: Promise<string> | null = null;

/** Runs it, whatever its exit status. */
export async function promtool(args: readonly string[], input = ''): ReturnType<typeof run> {
  found ??= debianPrometheus();
  const command = join(await found, 'promtool');
  return await run([command, ...args], { stdin: input });
}

/** nodewall's own series in a page of Prometheus' text format: name and labels, sorted. */
export function seriesOf(page: string): string[] {
  return [...valuesOf(page).keys()].sort();
}

/** The values of nodewall's own series, by name and labels as they are written. */
export function valuesOf(page: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of page.split('\n')) {
    const [, series, value] = /^(nodewall_\w+(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
    if (series === undefined) continue;
    assert.ok(!values.has(series), `twice in one page: ${series}`);
    values.set(series, Number(value));
  }
  return values;
}

/**
 * Fails if a page of metrics is not in Prometheus' format, or a metric of nodewall's breaks its
 * conventions: those that promtool knows (`_total`, base units, help), and times in place of ages.
 */
export async function checkConventions(page: string): Promise<void> {
  const { stdout, stderr } = await promtool(['check', 'metrics'], page);
  const problems = `${stdout}${stderr}`.split('\n').filter((line) => line.startsWith('nodewall_'));
  const ages = seriesOf(page).filter((series) => /^\w*_(age|lag|since)_/.test(series));
  assert.deepEqual([...problems, ...ages], []);
  assert.ok(seriesOf(page).length > 0, 'no metric of nodewall');
}
