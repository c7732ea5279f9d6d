/**
 * Every connection of connections/table.ts beside each pod network and proxy of Services, in a
 * fresh cluster each: without nodewall, under rules that allow all, and under exact ones. Each
 * result is recorded for docs/compatibility.md.
 */
import assert from 'node:assert/strict';
import { startBox } from '../../build/cluster/box.ts';
import { type RealCluster, versionsOf } from '../../build/cluster/cluster.ts';
import { describeCluster, install } from '../../build/cluster/install.ts';
import { POD_NETWORKS } from '../../build/cluster/pod-network.ts';
import { CONNECTION_COMBINATIONS } from '../../build/manifests/compatibility/connections.ts';
import { CONNECTION_RESULTS } from '../../build/manifests/compatibility/results.ts';
import { revision } from '../outcome.ts';
import type { Outcome } from './connections/attempts.ts';
import {
  type Connection,
  type ConnectionBed,
  connectionBed,
  manifest,
  writeOverlay,
} from './connections/bed.ts';
import { allowedOutcome, exactOutcome, givenOutcome } from './connections/table.ts';
import { setGate, untilConfirmed } from './nodewall.ts';

/** An attempt that should have been answered is made so often, on a busy machine. */
const ATTEMPTS = 4;
/** The first ones also wait until the proxy has all Services. */
const FIRST_ATTEMPTS = 15;

/** The policies of allow-all.yaml and exact.yaml. */
const policiesOf = (name: string): string[] => [`${name}-host`, `${name}-nodeport`];

/** Of the wrong ones, in the record. */
const SHOWN = 20;

type Expectation = (connection: Connection) => Outcome;

/** Those that are not as expected, in words. A connection that is open is not tried again. */
async function wrongOnes(
  bed: ConnectionBed,
  expected: Expectation,
  attempts = ATTEMPTS,
): Promise<readonly string[]> {
  const wrong = new Map<Connection, Outcome>();
  let wanted = bed.connections;
  for (let i = 0; i < attempts && wanted.length > 0; i++) {
    const outcomes = await bed.attempt(wanted);
    const again: Connection[] = [];
    for (const [n, connection] of wanted.entries()) {
      const outcome = outcomes[n] ?? 'dropped';
      wrong.delete(connection);
      if (outcome === expected(connection)) continue;
      wrong.set(connection, outcome);
      if (outcome !== 'open') again.push(connection);
    }
    wanted = again;
  }
  return [...wrong].map(([connection, outcome]) => {
    const { client, target, protocol, address } = connection;
    const what = `${target.kind} ${target.variant} at ${target.at}`;
    return `${client} to ${what} (${protocol} ${address} ${target.port}): ${outcome}, not ${expected(connection)}`;
  });
}

for (const { network, proxy, dataplane } of CONNECTION_COMBINATIONS)
  describe(`connections by ${network}, proxy ${proxy}, nodewall with ${dataplane}`, function () {
    this.timeout(900_000);
    const setting = {
      seenAs: POD_NETWORKS[network].seenAs,
      hasProxy: proxy !== 'none',
      isAllowFinal: proxy === 'iptables' && dataplane === 'iptables',
    };
    const given: Expectation = ({ client, target }) => givenOutcome(client, target, setting);
    const allowed: Expectation = ({ client, target }) => allowedOutcome(client, target, setting);
    const exact: Expectation = ({ client, target }) => exactOutcome(client, target, setting);
    let cluster: RealCluster;
    let bed: ConnectionBed;
    let at = '';
    let node: string | null = null;
    /** All that were wrong, of each test that ended. */
    const results: (readonly string[])[] = [];
    const tests = 3;

    before(async function () {
      // With programs and images to be made.
      this.timeout(3_600_000);
      at = await revision();
      cluster = await startBox({ podNetwork: network, proxy });
      node = await versionsOf(cluster);
      bed = await connectionBed(cluster, setting);
    });
    after(async () => {
      record();
      await cluster?.close();
    });
    afterEach(async function () {
      if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
    });

    it('are what the network gives without nodewall', async () => {
      await check('without nodewall', given, FIRST_ATTEMPTS);
    });

    it('are the same under rules that allow all', async () => {
      await install(cluster, await writeOverlay(cluster, { dataplane, hasProxy: setting.hasProxy }));
      await setGate(cluster, true);
      await enforce('allow-all');
      await check('all allowed', allowed);
    });

    it('are those that exact rules allow', async () => {
      if (POD_NETWORKS[network].between !== 'routes') await cluster.apply(await manifest('carrier'));
      if (!setting.hasProxy) await cluster.apply(await manifest('dns'));
      await cluster.remove('ncnp', ...policiesOf('allow-all'));
      await enforce('exact');
      await check('exact rules', exact);
    });

    async function check(what: string, expected: Expectation, attempts?: number): Promise<void> {
      const wrong = await wrongOnes(bed, expected, attempts);
      results.push(wrong.map((one) => `${what}: ${one}`));
      assert.deepEqual(wrong, []);
    }

    function record(): void {
      const failures = results.flat();
      const passed = results.length * (bed?.connections.length ?? 0) - failures.length;
      const ended = failures.length === 0 ? 'passed' : 'failed';
      CONNECTION_RESULTS.record({
        network,
        proxy,
        dataplane,
        node,
        revision: at,
        date: new Date().toISOString().slice(0, 10),
        result: results.length === tests ? ended : 'unfinished',
        passed,
        failed: failures.length,
        skipped: 0,
        failures: failures.slice(0, SHOWN),
        skips: [],
      });
    }

    async function enforce(name: string): Promise<void> {
      await cluster.apply(await manifest(name));
      for (const policy of policiesOf(name)) await untilConfirmed(cluster, policy);
    }
  });
