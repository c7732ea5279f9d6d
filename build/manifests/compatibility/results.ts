/** The results behind docs/compatibility.md, in a file of the repository. */
import { readFileSync, writeFileSync } from 'node:fs';
import { KERNELS, MATRIX_SUITES } from './matrix.ts';

/** The outcome of one suite with one kernel. */
export interface Cell {
  /** MatrixKernel's `debian`, and MatrixSuite's `name`. */
  readonly kernel: string;
  readonly suite: string;
  /** `unfinished`: it was ended by its time limit, or the guest stopped. */
  readonly result: 'passed' | 'failed' | 'unfinished';
  /** As `uname -r` prints it. */
  readonly release: string;
  readonly isEmulated: boolean;
  /** YYYY-MM-DD, UTC. */
  readonly date: string;
  /** The repository's; with `+` where files were changed since. */
  readonly revision: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Titles of the tests that failed; or the last line of a program, or of what did not end. */
  readonly failures: readonly string[];
  /** Reasons that tests gave for being skipped. */
  readonly skips: readonly string[];
}

const RESULTS_FILE = new URL('results.json', import.meta.url);

export function readResults(): Cell[] {
  return JSON.parse(readFileSync(RESULTS_FILE, 'utf8'));
}

/** Puts one result in the place of the one before, in the file: a line for each. */
export function recordResult(cell: Cell): void {
  const lines = mergeResult(readResults(), cell).map((one) => JSON.stringify(one));
  writeFileSync(RESULTS_FILE, `[\n${lines.join(',\n')}\n]\n`);
}

/** In the order of the matrix, without cells that it no longer has. */
export function mergeResult(cells: readonly Cell[], cell: Cell): Cell[] {
  const isOther = ({ kernel, suite }: Cell): boolean => kernel !== cell.kernel || suite !== cell.suite;
  const all = [...cells.filter(isOther), cell];
  return MATRIX_SUITES.flatMap(({ name }) =>
    KERNELS.flatMap(({ debian }) => all.filter(({ kernel, suite }) => kernel === debian && suite === name)),
  );
}
