import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CHART, chartFiles } from './chart-files.ts';

/** Writes the chart as Helm installs it: what is kept of it, and what is made. */
export async function packageChart(folder: string): Promise<void> {
  await cp(CHART, folder, { recursive: true });
  for (const [path, text] of chartFiles().packaged) await writeFile(join(folder, path), text);
}
