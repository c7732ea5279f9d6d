import { setTimeout as sleep } from 'node:timers/promises';
import type { ExitStatus } from '../lib/process/exit.ts';
import { print } from './output.ts';

/** Milliseconds between two looks of `--watch`. */
const LOOK_EVERY = 2_000;
/** Clears a terminal (ECMA-48): the cursor to its top, and all below it. */
const CLEAR = '\u001b[H\u001b[J';

/** Prints what a look has found. */
export type Show = (text: string) => Promise<void>;

/**
 * Looks once, or with `--watch` again and again until the process is ended: on a terminal each look
 * takes the place of the one before, elsewhere they follow one another. A look that fails ends it.
 *
 * @param look resolves with the exit status
 */
export async function watched(
  isWatched: boolean,
  look: (show: Show) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  if (!isWatched) return await look(print);
  const before = process.stdout.isTTY ? CLEAR : '';
  for (;;) {
    await look((text) => print(`${before}${text}`));
    await sleep(LOOK_EVERY);
  }
}
