/** The examples in README.md, in their order. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const WORKSPACE = join(import.meta.dirname, '..');

/** The program that the tests run: node, through standard input. */
export const RUN_EXAMPLE = [process.execPath, '--input-type=module-typescript', '-'] as const;

export function examples(): string[] {
  const text = readFileSync(join(WORKSPACE, 'README.md'), 'utf8');
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code);
}

/** The output that an example says it prints: comments behind its writes. */
export function printed(code: string): string[] {
  return [...code.matchAll(/write\(.*\/\/ (.*)$/gm)].map(([, text = '']) => text);
}
