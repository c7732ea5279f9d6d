import type { RealCluster } from '../../build/cluster/cluster.ts';
import type { Finished } from '../../build/programs/command.ts';

/** What the stories of one cluster share; it is there once `before` has run. */
export interface Bed {
  cluster(): RealCluster;
  /**
   * Runs a script as somebody at a terminal with the cluster's kubectl (bash -euo pipefail). A
   * status other than 0 is no error here.
   */
  shell(script: string): Promise<Finished>;
}
