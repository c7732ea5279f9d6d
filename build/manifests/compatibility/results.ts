/** The results behind docs/compatibility.md, in files of the repository. */
import { readFileSync, writeFileSync } from 'node:fs';
import { CONTAINERD_NAMES, KUBERNETES_NAMES } from '../../cluster/versions.ts';
import { CONNECTION_COMBINATIONS, type ConnectionCombination } from './connections.ts';
import { CLUSTER_SUITES, KERNELS, MATRIX_SUITES } from './matrix.ts';

/** The result of one suite. */
export interface Outcome {
  /** `unfinished`: it was ended by its time limit, or what it ran in stopped. */
  readonly result: 'passed' | 'failed' | 'unfinished';
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Titles of the tests that failed; or the last line of a program, or of what did not end. */
  readonly failures: readonly string[];
  /** Reasons that tests gave for being skipped. */
  readonly skips: readonly string[];
}

/** An outcome that was recorded. */
export interface Recorded extends Outcome {
  /** YYYY-MM-DD, UTC. */
  readonly date: string;
  /** The repository's; with `+` where files were changed since. */
  readonly revision: string;
}

/** The outcome of one suite with one kernel. */
export interface Cell extends Recorded {
  /** The names of MatrixKernel and MatrixSuite. */
  readonly kernel: string;
  readonly suite: string;
  /** As `uname -r` prints it. */
  readonly release: string;
  readonly isEmulated: boolean;
}

/** The outcome of one suite with one cluster. */
export interface ClusterCell extends Recorded {
  /** As versions.ts names them, and the suite's name. */
  readonly kubernetes: string;
  readonly containerd: string;
  readonly suite: string;
  /** As the cluster's first node reported itself; null where there was none. */
  readonly node: string | null;
}

/** The outcome of all connections in one cluster; counts and failures are of connections. */
export interface ConnectionCell extends Recorded, ConnectionCombination {
  /** As the cluster's first node reported itself; null where there was none. */
  readonly node: string | null;
}

const RESULTS_FILE = new URL('results.json', import.meta.url);
const CLUSTER_RESULTS_FILE = new URL('cluster-results.json', import.meta.url);
const CONNECTION_RESULTS_FILE = new URL('connection-results.json', import.meta.url);

export function readResults(): Cell[] {
  return JSON.parse(readFileSync(RESULTS_FILE, 'utf8'));
}

/** Puts one result in the place of the one before, in the file: a line for each. */
export function recordResult(cell: Cell): void {
  write(RESULTS_FILE, mergeResult(readResults(), cell));
}

export function readClusterResults(): ClusterCell[] {
  return JSON.parse(readFileSync(CLUSTER_RESULTS_FILE, 'utf8'));
}

/** The same for a cluster. */
export function recordClusterResult(cell: ClusterCell): void {
  write(CLUSTER_RESULTS_FILE, mergeClusterResult(readClusterResults(), cell));
}

export function readConnectionResults(): ConnectionCell[] {
  return JSON.parse(readFileSync(CONNECTION_RESULTS_FILE, 'utf8'));
}

/** The same for connections. */
export function recordConnectionResult(cell: ConnectionCell): void {
  write(CONNECTION_RESULTS_FILE, mergeConnectionResult(readConnectionResults(), cell));
}

function write(file: URL, cells: readonly Recorded[]): void {
  const lines = cells.map((one) => JSON.stringify(one));
  writeFileSync(file, `[\n${lines.join(',\n')}\n]\n`);
}

/** In the order of the matrix, without cells that it no longer has. */
export function mergeResult(cells: readonly Cell[], cell: Cell): Cell[] {
  const isOther = ({ kernel, suite }: Cell): boolean => kernel !== cell.kernel || suite !== cell.suite;
  const all = [...cells.filter(isOther), cell];
  return MATRIX_SUITES.flatMap((one) =>
    KERNELS.flatMap(({ name }) => all.filter(({ kernel, suite }) => kernel === name && suite === one.name)),
  );
}

/** The same for a cluster. */
export function mergeClusterResult(cells: readonly ClusterCell[], cell: ClusterCell): ClusterCell[] {
  const keyOf = ({ kubernetes, containerd, suite }: Omit<ClusterCell, keyof Recorded | 'node'>): string =>
    JSON.stringify([kubernetes, containerd, suite]);
  const all = new Map([...cells, cell].map((one) => [keyOf(one), one]));
  return CLUSTER_SUITES.flatMap(({ name: suite }) =>
    KUBERNETES_NAMES.flatMap((kubernetes) =>
      CONTAINERD_NAMES.flatMap((containerd) => all.get(keyOf({ kubernetes, containerd, suite })) ?? []),
    ),
  );
}

/** The same for connections. */
export function mergeConnectionResult(
  cells: readonly ConnectionCell[],
  cell: ConnectionCell,
): ConnectionCell[] {
  const keyOf = ({ network, proxy, dataplane }: ConnectionCombination): string =>
    JSON.stringify([network, proxy, dataplane]);
  const all = new Map([...cells, cell].map((one) => [keyOf(one), one]));
  return CONNECTION_COMBINATIONS.flatMap((combination) => all.get(keyOf(combination)) ?? []);
}
