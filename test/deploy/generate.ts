import { mkdirSync, writeFileSync } from 'node:fs';
import { generatedFiles } from './generated-files.ts';

/** `npm run generate`: writes what in deploy/ is made of something else. */
for (const [path, text] of generatedFiles()) {
  mkdirSync(new URL('.', path), { recursive: true });
  writeFileSync(path, text);
}
