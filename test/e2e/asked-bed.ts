/**
 * A cluster of two workers and two controllers with an aggregated API, a policy that has denied
 * connections on one of the workers, and users: jane and ann have nodewall-view, ann the
 * controller's rights too, mallory none, admin all.
 */

import assert from 'node:assert/strict';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CONSOLE_FILES } from '../../controller/console/static-files.ts';
import { usersYaml } from '../cluster/admin-api.ts';
import { tcp } from '../kernel/manifests.ts';
import { type Ended, WarmNodewall } from '../kernel/warm.ts';
import { controllerService, untilAggregated } from './controller-service.ts';
import { closed, realized, type Story, startStory } from './story-bed.ts';
import { replicaPort } from './story-controllers.ts';

/** On which the rule `web/close` has dropped connections. */
export const NODE = 'worker-1';
/** Of both replicas. */
export const PORTS = [replicaPort(0), replicaPort(1)] as const;

/** The API server writes HTML anew that it passes on; this stays as it is. */
export const PAGE = '<!doctype html><title>nodewall</title>';
/** Long enough to be compressed, and no compressed file is beside it. */
const SCRIPT = `export const answer = 42; // ${'x'.repeat(2000)}\n`;
export const SCRIPT_NAME = 'answer-B3x9Qk2w.js';

const USERS = usersYaml({
  jane: ['nodewall-view'],
  mallory: [],
  ann: ['nodewall-view', 'nodewall-controller'],
});

export type User = 'jane' | 'ann' | 'mallory' | 'admin';

export interface AskedBed {
  readonly story: Story;
  /** Paths. */
  readonly kubeconfigs: Readonly<Record<User, string>>;
  /** Runs a command line of nodewall with the user's kubeconfig, in one process for all calls. */
  nodewall(user: User, ...args: readonly string[]): Promise<Ended>;
  /** What a command prints as JSON for jane. */
  printed(...args: readonly string[]): ReturnType<typeof JSON.parse>;
  /** The policy `web` alone, anew, which has dropped connections to port 80 of {@link NODE}. */
  renewed(): Promise<void>;
  close(): Promise<void>;
}

/** The console's files with two more. */
async function writePages(folder: string): Promise<void> {
  await cp(CONSOLE_FILES, folder, { recursive: true });
  await writeFile(join(folder, 'plain.html'), PAGE);
  await writeFile(join(folder, SCRIPT_NAME), SCRIPT);
}

export async function startAskedBed(): Promise<AskedBed> {
  const pages = await mkdtemp(join(tmpdir(), 'nodewall-console-'));
  await writePages(pages);
  const controllerOptions = ['--console-files', pages];
  // No kube-proxy: the API server looks for the endpoints itself.
  const apiServerFlags = ['--enable-aggregator-routing=true'];
  const story = await startStory({ replicas: 2, apiServerFlags, controllerOptions });
  const { cluster, address } = story;
  await cluster.apply(`${controllerService(address, [PORTS[0]])}---${USERS}`);
  const kubeconfigs = { jane: '', ann: '', mallory: '', admin: cluster.kubeconfig };
  for (const user of ['jane', 'ann', 'mallory'] as const)
    kubeconfigs[user] = await cluster.kubeconfigFor(user, { token: await cluster.token(`default/${user}`) });
  await untilAggregated(cluster);
  const warm = new WarmNodewall(story.controlPlane);
  const nodewall = (user: User, ...args: readonly string[]): Promise<Ended> =>
    warm.end(...args, '--kubeconfig', kubeconfigs[user]);

  return {
    story,
    kubeconfigs,
    nodewall,
    async printed(...args) {
      const { status, stdout, stderr } = await nodewall('jane', ...args, '-o', 'json');
      assert.equal(status, 0, stderr);
      return JSON.parse(stdout);
    },
    async renewed() {
      await story.withoutPolicies();
      const rule = { name: 'close', action: 'Drop', ports: [tcp(80)], enableLogging: true, logLabel: 'web' };
      await story.applied(closed('web', 80, { ingress: [rule] }));
      await story.statusIs('web', realized(2));
      await story.sees('other0', NODE, 80, 'closed');
    },
    async close() {
      await warm.close();
      await story.close();
      await rm(pages, { recursive: true });
    },
  };
}
