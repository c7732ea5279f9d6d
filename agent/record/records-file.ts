import { join } from 'node:path';
import type { Config } from '../../apis/config.ts';

/** The file that the agent writes records to; null: its standard output. */
export function recordsFile(stateDir: string, { log: { file } }: Pick<Config, 'log'>): string | null {
  if (file === 'stdout') return null;
  return file === '' ? join(stateDir, 'records.jsonl') : file;
}
