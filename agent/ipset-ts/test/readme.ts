/** The examples in README.md, in their order. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const WORKSPACE = join(import.meta.dirname, '..');

/** What the tests run with node, through standard input. */
export const RUN_EXAMPLE = [process.execPath, '--input-type=module-typescript', '-'] as const;

export function examples(): string[] {
  const text = readFileSync(join(WORKSPACE, 'README.md'), 'utf8');
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code);
}

/** What an example says that it prints: comments behind its writes. */
export function printed(code: string): string[] {
  return [...code.matchAll(/write\(.*\/\/ (.*)$/gm)].map(([, text = '']) => text);
}
