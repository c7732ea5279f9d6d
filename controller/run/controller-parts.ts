import type { KubeConfig } from '@kubernetes/client-node';
import type { Config } from '../../apis/config.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { ListenAddress } from '../../lib/process/listen-address.ts';
import type { Log } from '../../lib/process/log.ts';
import type { ControllerOptions } from './controller-options.ts';

/** What the command line makes of its options. */
export interface ControllerParts {
  readonly options: ControllerOptions;
  readonly listen: ListenAddress;
  readonly webhook: ListenAddress | null;
  /** `--feature-gates`; null: as the cluster has it. */
  readonly gate: boolean | null;
  readonly config: Config;
  readonly kubeConfig: KubeConfig;
  readonly log: Log;
}

/** What differs from one life of the process to the next. */
export interface Surroundings {
  readonly clock: WallClock;
  /** Numbers from 0 to 1. */
  readonly random: () => number;
  /** Unique to this life of this process. */
  readonly identity: string;
}
