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
  /**
   * `virtual`: Debian's image, by the machine's processors; `emulated`: that image, by one emulated
   * processor; `user mode`: made of Debian's source and options, as a program of the machine.
   */
  readonly guest: 'virtual' | 'emulated' | 'user mode';
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

/** The outcome of a suite that others wrote, with one dataplane. */
export interface SuiteCell extends Recorded {
  /** Its name for people. */
  readonly suite: string;
  readonly dataplane: (typeof SUITE_DATAPLANES)[number];
  /** As the cluster's first node reported itself. */
  readonly node: string;
  /** Titles of the tests that fail without nodewall. */
  readonly failWithout: readonly string[];
}

const SUITE_DATAPLANES = ['nftables', 'iptables'] as const;

/** The results of one table, in a file beside this one: a line each, in the table's order. */
class ResultsFile<One extends Recorded> {
  readonly #file: URL;
  readonly #keyOf: (one: One) => readonly unknown[];
  readonly #order: ReadonlyMap<string, number>;

  /** @param order the keys that the table has */
  constructor(name: string, order: readonly (readonly unknown[])[], keyOf: (one: One) => readonly unknown[]) {
    this.#file = new URL(name, import.meta.url);
    this.#keyOf = keyOf;
    this.#order = new Map(order.map((key, i) => [JSON.stringify(key), i]));
  }

  read(): One[] {
    return JSON.parse(readFileSync(this.#file, 'utf8'));
  }

  /** Those that the table has, in its order. */
  ofTable(all = this.read()): One[] {
    const placed = new Map(all.map((each) => [this.#placeOf(each), each]));
    placed.delete(undefined);
    return [...placed].sort(([a = 0], [b = 0]) => a - b).map(([, each]) => each);
  }

  /** Puts a result in the place of the one before, in the file. */
  record(one: One): void {
    const lines = this.merge(this.read(), one).map((each) => JSON.stringify(each));
    writeFileSync(this.#file, `[\n${lines.join(',\n')}\n]\n`);
  }

  /** In the table's order, without results that it no longer has. */
  merge(all: readonly One[], one: One): One[] {
    return this.ofTable([...all, one]);
  }

  #placeOf(one: One): number | undefined {
    return this.#order.get(JSON.stringify(this.#keyOf(one)));
  }
}

export const KERNEL_RESULTS = new ResultsFile<Cell>(
  'results.json',
  MATRIX_SUITES.flatMap(({ name }) => KERNELS.map((kernel) => [name, kernel.name])),
  ({ suite, kernel }) => [suite, kernel],
);

export const CLUSTER_RESULTS = new ResultsFile<ClusterCell>(
  'cluster-results.json',
  CLUSTER_SUITES.flatMap(({ name }) =>
    KUBERNETES_NAMES.flatMap((kubernetes) => CONTAINERD_NAMES.map((one) => [name, kubernetes, one])),
  ),
  ({ suite, kubernetes, containerd }) => [suite, kubernetes, containerd],
);

export const CONNECTION_RESULTS = new ResultsFile<ConnectionCell>(
  'connection-results.json',
  CONNECTION_COMBINATIONS.map(({ network, proxy, dataplane }) => [network, proxy, dataplane]),
  ({ network, proxy, dataplane }) => [network, proxy, dataplane],
);

export const SUITE_RESULTS = new ResultsFile<SuiteCell>(
  'suite-results.json',
  SUITE_DATAPLANES.map((dataplane) => [dataplane]),
  ({ dataplane }) => [dataplane],
);
