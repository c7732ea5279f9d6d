import { startBox } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { describeCluster, install, SYSTEM_NAMESPACE } from '../../build/cluster/install.ts';
import { deleteNamespace } from './nodewall.ts';

/** `npm test` has the harder case, without controllers (stories.test.ts). */
describe('nodewall on a real cluster', function () {
  this.timeout(600_000);
  let cluster: RealCluster;

  before(async function () {
    this.timeout(3_600_000);
    cluster = await startBox();
    await install(cluster);
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  it('is removed with its namespace, while controllers run', () =>
    deleteNamespace(cluster, SYSTEM_NAMESPACE));
});
