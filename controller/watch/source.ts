import type { ClusterObjects, Problem } from '../../apis/objects.ts';

/** What a reading of manifests came to. */
export interface Loaded {
  /** Valid objects only, sorted by namespace and name, each identity once. */
  readonly objects: ClusterObjects;
  /** Sorted by file, line and path. */
  readonly problems: readonly LoadProblem[];
  /** How many files were read. */
  readonly files: number;
}

export interface LoadProblem extends Problem {
  /** The file or directory could not be read at all. */
  readonly unreadable?: true;
}

export interface Snapshot extends Loaded {
  /**
   * False while something that should be read at start can't be: what is in `objects` is then not
   * all there is, and nothing may be taken away from what is enforced.
   */
  readonly complete: boolean;
}

/** Where Kubernetes objects come from: files, or the API of a cluster. */
export interface ObjectSource {
  /** Reads once, delivers, and delivers again after every change until closed. */
  start(deliver: (snapshot: Snapshot) => void): Promise<void>;
  close(): Promise<void>;
}
