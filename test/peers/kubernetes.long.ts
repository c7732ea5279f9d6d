/**
 * Kubernetes' own tests of networks on a real cluster, without nodewall and under a default deny of
 * all nodes, in each dataplane: those that pass without it pass with it. The result is recorded for
 * docs/compatibility.md. `NODEWALL_SPECS` is a regular expression in place of the usual choice.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startBox } from '../../build/cluster/box.ts';
import { type RealCluster, versionsOf } from '../../build/cluster/cluster.ts';
import { describeCluster, install } from '../../build/cluster/install.ts';
import { SUITE_RESULTS } from '../../build/manifests/compatibility/results.ts';
import { revision } from '../outcome.ts';
import { writeOverlay } from '../realcluster/connections/bed.ts';
import { setGate, untilConfirmed } from '../realcluster/nodewall.ts';
import { buildSuite, prepareSuite, type Specs } from './kubernetes-suite.ts';

const HOUR = 3_600_000;
/** All of networks, and probes, which the kubelet makes from the node. */
const CHOSEN = process.env.NODEWALL_SPECS || String.raw`\[sig-network\]|Probing container`;
/** Needs what the cluster has not, disturbs others, or is of the pods' own network policies. */
const LEFT_OUT = [
  String.raw`\[(?:Feature:|Serial\]|Disruptive\]|Slow\]|Flaky\]|Alpha\]|Beta\])`,
  'LoadBalancer|Netpol|NetworkPolicy|Provider:GCE|affinity timeout',
  // Their images, of CoreDNS and of a server that sends wrong packets, are not built here.
  'configurable pod resolv|invalid conntrack state',
].join('|');
const POLICIES = ['deny-host', 'deny-nodeport'];
/** Of those that fail, in the record. */
const SHOWN = 20;

describe("Kubernetes' own tests of networks", function () {
  this.timeout(HOUR);
  let cluster: RealCluster;
  let runAll: () => Promise<Specs>;
  let without: Specs;
  let node = '';
  let at = '';

  before(async function () {
    this.timeout(4 * HOUR);
    at = await revision();
    const suite = await buildSuite();
    cluster = await startBox();
    node = await versionsOf(cluster);
    const run = await prepareSuite(cluster, suite);
    runAll = () => run({ focus: CHOSEN, skip: LEFT_OUT });
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  it('pass without nodewall, or fail by what the cluster lacks', async () => {
    without = await runAll();
    print('without nodewall', without);
    assert.ok(named(without, 'passed').length > 0, 'none passed');
  });

  for (const dataplane of ['nftables', 'iptables'] as const)
    it(`pass under a default deny with ${dataplane}, if they pass without`, async () => {
      await install(cluster, await writeOverlay(cluster, { dataplane, hasProxy: true }));
      await setGate(cluster, true);
      await cluster.apply(await readFile(join(import.meta.dirname, 'default-deny.yaml'), 'utf8'));
      for (const policy of POLICIES) await untilConfirmed(cluster, policy);
      const found = await runAll();
      print(dataplane, found);
      const passed = named(without, 'passed');
      const broken = passed.filter((title) => found.has(title) && found.get(title)?.outcome !== 'passed');
      const missing = passed.filter((title) => !found.has(title));
      SUITE_RESULTS.record({
        suite: "Kubernetes' tests of networks",
        node,
        dataplane,
        revision: at,
        date: new Date().toISOString().slice(0, 10),
        result: missing.length > 0 ? 'unfinished' : broken.length > 0 ? 'failed' : 'passed',
        passed: passed.filter((title) => found.get(title)?.outcome === 'passed').length,
        failed: broken.length,
        skipped: named(without, 'skipped').length,
        failures: broken.slice(0, SHOWN),
        failWithout: named(without, 'failed').map((title) => `${title}: ${without.get(title)?.why}`),
        skips: [],
      });
      assert.deepEqual({ broken, missing }, { broken: [], missing: [] });
    });
});

function named(specs: Specs, wanted: 'passed' | 'failed' | 'skipped'): string[] {
  return [...specs].filter(([, { outcome }]) => outcome === wanted).map(([title]) => title);
}

function print(what: string, specs: Specs): void {
  const counts = (['passed', 'failed', 'skipped'] as const).map(
    (one) => `${named(specs, one).length} ${one}`,
  );
  process.stdout.write(`      ${what}: ${counts.join(', ')}\n`);
  for (const title of named(specs, 'failed'))
    process.stdout.write(`        failed: ${title}: ${specs.get(title)?.why}\n`);
}
