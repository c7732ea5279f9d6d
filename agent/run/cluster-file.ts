import type { Endpoints, WrittenEndpoints } from '../../apis/stream.ts';
import type { Log } from '../../lib/process/log.ts';
import { Saver } from '../../lib/process/saver.ts';
import { stateFile } from '../../lib/process/state-file.ts';

/** Values that the agent of a cluster needs at its next start, besides the last good state. */
export interface ClusterMemory extends Partial<WrittenEndpoints> {
  /** The cluster's feature gate as last received; null: not received yet. */
  readonly enabled: boolean | null;
  /**
   * Addresses at which the controller was reached, sorted: for the failsafe list while names can't
   * be resolved.
   */
  readonly controllerAddresses: readonly string[];
  /** The API server as the kubelet reaches it; absent: not known. */
  readonly kubelet?: Endpoints;
  /**
   * The CA (PEM) for the controller's certificate as last read from the API server; absent: none.
   */
  readonly authorities?: string;
  /** Whether the controller's view last had egress gateways; absent: it had none. */
  readonly egress?: true;
  /** The time when the connection to the controller was lost (ISO 8601); null: it is connected. */
  readonly awaySince: string | null;
}

export interface ClusterFile {
  save(memory: ClusterMemory): void;
  /** Null: there is none, or it can't be used. */
  read(): Promise<ClusterMemory | null>;
  /** From then on nothing is saved: another agent may have the file. */
  close(): Promise<void>;
}

/** cluster.json in the state directory. */
export function clusterFile(stateDir: string, log: Log): ClusterFile {
  const file = new Saver<ClusterMemory>(
    stateFile(stateDir, 'cluster.json'),
    (memory) => JSON.stringify(memory),
    log,
  );
  return {
    save: (memory) => file.save(memory),
    read: () => file.read((text) => JSON.parse(text) as ClusterMemory),
    close: () => file.close(),
  };
}
