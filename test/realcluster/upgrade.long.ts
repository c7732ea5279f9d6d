import assert from 'node:assert/strict';
import { importImage, startBox } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { AGENT_PODS, CONTROLLERS, describeCluster, untilReady } from '../../build/cluster/install.ts';
import { buildHelm } from '../cluster/build.ts';
import { HelmRelease, type PreviousChart, previousChart } from './helm-release.ts';
import { leaksNothingUntilFollowed, untilClosed, written } from './installation.ts';
import { podsWithTerminating } from './nodewall.ts';

/**
 * The chart of the version before, and the way to today's and back. The steps follow each other.
 */
describe('a release of the chart, from the version before to this one and back', function () {
  this.timeout(900_000);
  let cluster: RealCluster;
  let release: HelmRelease;
  let previous: PreviousChart;

  before(async function () {
    this.timeout(3_600_000);
    const helm = await buildHelm();
    previous = await previousChart();
    cluster = await startBox();
    release = new HelmRelease(cluster, helm);
    await Promise.all(
      cluster.nodes.map(async (node) => {
        for (const archive of Object.values(previous.images)) await importImage(node, archive);
      }),
    );
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  /** The tags of the images that run, those of pods on their way out among them. */
  async function tags(): Promise<string[]> {
    const both = await Promise.all([AGENT_PODS, CONTROLLERS].map((one) => podsWithTerminating(cluster, one)));
    const images = both.flat().flatMap(({ spec }) => spec.containers.map(({ image }) => image));
    return [...new Set(images.map((image) => image.replace(/^.*:/, '')))];
  }

  it('is installed as the version before, and closes a port', async () => {
    const images = ['controller', 'agent'].map((name) => `images.${name}.tag=${previous.tag}`);
    await release.installChart(previous.chart, ...images);
    await untilReady(cluster);
    assert.deepEqual(await tags(), [previous.tag]);
    await untilClosed(cluster);
  });

  for (const [what, act, isPrevious] of [
    ['an upgrade to this version', () => release.upgrade(), false],
    ['a rollback to the version before', () => release.rollback(1), true],
    ['an upgrade again', () => release.upgrade(), false],
  ] as const) {
    it(`leaks nothing, and keeps gate, CA and caBundles: ${what}`, async () => {
      const before = await written(cluster);
      await leaksNothingUntilFollowed(cluster, act);
      assert.deepEqual(await written(cluster), before);
      const running = await tags();
      assert.equal(running.length, 1, running.join(', '));
      assert.equal(running[0] === previous.tag, isPrevious, running[0]);
    });
  }
});
