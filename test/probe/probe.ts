import { cProgram } from './c-program.ts';

/** The path of an up-to-date probe program. */
export function probeProgram(): Promise<string> {
  return cProgram(import.meta.dirname, 'probe');
}
