import { mkdirSync, writeFileSync } from 'node:fs';
import { CHART, chartFiles } from './chart/chart-files.ts';
import { generatedFiles } from './generated-files.ts';

/**
 * `npm run generate`: writes what in deploy/ is made of something else. The chart's values are made
 * of what kustomize reads, so they come last.
 */
write(generatedFiles());
write(new Map([...chartFiles().kept].map(([path, text]) => [new URL(path, CHART), text])));

function write(files: ReadonlyMap<URL, string>): void {
  for (const [path, text] of files) {
    mkdirSync(new URL('.', path), { recursive: true });
    writeFileSync(path, text);
  }
}
