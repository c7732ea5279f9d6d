/** One API server: the tests' own use of it, and what of nodewall it takes, keeps and asks. */
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { describeCrds } from './crds.ts';
import { describeDeploy } from './deploy.ts';
import { describeGate } from './gate.ts';
import { describeProxies } from './proxies.ts';
import { describeTestCluster } from './test-cluster.ts';
import { describeWatch } from './watch.ts';
import { describeWebhook } from './webhook.ts';

describe('a real API server', () => {
  let cluster: TestCluster;
  before(async function () {
    // The first one on a machine builds it.
    this.timeout(1_800_000);
    cluster = await startCluster();
  });
  after(() => cluster?.close());

  // Each removes what would be in the way of the next one.
  describeTestCluster(() => cluster);
  describeProxies(() => cluster);
  describeWatch(() => cluster);
  describeCrds(() => cluster);
  describeWebhook(() => cluster);
  describeDeploy(() => cluster);
  describeGate(() => cluster);
});
