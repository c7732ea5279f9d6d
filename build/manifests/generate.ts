import { mkdirSync, writeFileSync } from 'node:fs';
import { chartFiles } from './chart/chart-files.ts';
import { generatedFiles } from './generated-files.ts';

/**
 * `npm run generate`: writes what in deploy/ is made of something else. The chart is made of what
 * kustomize reads, so it comes last.
 */
for (const files of [generatedFiles, chartFiles]) {
  for (const [path, text] of files()) {
    mkdirSync(new URL('.', path), { recursive: true });
    writeFileSync(path, text);
  }
}
