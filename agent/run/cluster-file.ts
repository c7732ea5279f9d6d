import type { Endpoints } from '../../apis/stream.ts';
import type { Log } from '../../lib/process/log.ts';
import { saver } from '../../lib/process/saver.ts';
import { stateFile } from '../../lib/process/state-file.ts';

/** What the agent of a cluster must know at its next start, besides the last good state. */
export interface ClusterMemory {
  /** The feature gate as the cluster last had it; null: it has not said yet. */
  readonly enabled: boolean | null;
  /**
   * Addresses that the controller was reached at, sorted: for the failsafe list while names can't
   * be resolved.
   */
  readonly controllerAddresses: readonly string[];
  /** Where the API server was; absent is nothing known. */
  readonly endpoints?: readonly Endpoints[];
  /** The CA (PEM) that the API server last gave for the controller's certificate; absent: none. */
  readonly authorities?: string;
  /** Since when the controller is away (ISO 8601); null: it isn't. */
  readonly awaySince: string | null;
}

export interface ClusterFile {
  save(memory: ClusterMemory): void;
  /** Null: there is none, or it can't be used. */
  read(): Promise<ClusterMemory | null>;
  flush(): Promise<void>;
}

/** cluster.json in the state directory. */
export function clusterFile(stateDir: string, log: Log): ClusterFile {
  const file = saver<ClusterMemory>(
    stateFile(stateDir, 'cluster.json'),
    (memory) => JSON.stringify(memory),
    log,
  );
  return {
    save: file.save,
    read: () => file.read((text) => JSON.parse(text) as ClusterMemory),
    flush: file.flush,
  };
}
