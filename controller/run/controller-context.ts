import type { KubeConfig } from '@kubernetes/client-node';
import type { Config } from '../../apis/config.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';

/** The options of the command line as typed. */
export interface ControllerOptions {
  readonly kubeconfig?: string;
  readonly config?: string;
  /** HOST:PORT each. */
  readonly listen: string;
  readonly webhookListen?: string;
  readonly metricsListen?: string;
  readonly tlsCertFile?: string;
  readonly tlsKeyFile?: string;
  readonly tlsCaFile?: string;
  /** HOST:PORT each. */
  readonly peer?: readonly string[];
  /** Name of the pod that it runs in. */
  readonly podName?: string;
  /** False: none is registered. Absent: it is. */
  readonly aggregatedApi?: boolean;
  /** Folder of the console's built pages; absent: those beside this program. */
  readonly consoleFiles?: string;
  readonly featureGates?: string;
  /** Comma-separated; '' means the API server's own. */
  readonly tokenAudiences: string;
  /** Seconds. */
  readonly relistPeriod: number;
  readonly logFormat?: 'json' | 'text';
  readonly logLevel: string;
}

/** The evaluated options of the command line. */
export interface ControllerContext {
  readonly options: ControllerOptions;
  readonly listen: ListenAddress;
  /** `shared`: at `listen`. Null: there is none. */
  readonly webhook: ListenAddress | 'shared' | null;
  /** Other controllers besides those in pods: HOST:PORT each. */
  readonly peers: readonly string[];
  /** `--feature-gates`; null: use the cluster's. */
  readonly gate: boolean | null;
  /**
   * EgressGateway in `--feature-gates` and in the configuration file; null: not there. Whether the
   * gate is on in this run is in `config`. Absent: `config` counts, whatever the cluster says.
   */
  readonly egressGate?: { readonly given: boolean | null; readonly configured: boolean | null };
  readonly config: Config;
  readonly kubeConfig: KubeConfig;
  readonly log: Log;
}

/** Values that differ between runs of the process. */
export interface ProcessContext {
  readonly clock: WallClock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  /** Unique to this run of this process. */
  readonly identity: string;
}

/** Whether this run of the controller is made with egress gateways. */
export function hasEgress({ config }: ControllerContext): boolean {
  return config.featureGates.EgressGateway === true;
}
