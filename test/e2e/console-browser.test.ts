/**
 * The whole way: a browser asks `nodewall console`, which asks a real API server, which asks a
 * controller, which asks agents.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { type ConfinedBrowser, startBrowser } from '../console/browser.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { tcp } from '../kernel/manifests.ts';
import { type RunningDoor, startDoor } from './console-door.ts';
import { controllerService, untilAggregated } from './controller-service.ts';
import { closed, realized, type Story, startStory } from './story-bed.ts';

const USERS = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: jane, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: mallory, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodewall-view}
subjects: [{kind: ServiceAccount, name: jane, namespace: default}]
---
# May open the pages, and read nothing.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: console-files}
rules: [{apiGroups: [controlplane.nodewall.io], resources: [console], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mallory}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: console-files}
subjects: [{kind: ServiceAccount, name: mallory, namespace: default}]
`;
const NEW = `apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ssh}
spec:
  priority: 5
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: no-ssh, action: Drop, ports: [{protocol: TCP, port: 22}]}]
`;

kernelSuite('the console of a real cluster, in a browser', function () {
  this.timeout(120_000);
  let story: Story;
  const doors: RunningDoor[] = [];
  const browsers: ConfinedBrowser[] = [];

  before(async function () {
    this.timeout(1_800_000);
    story = await startStory({ replicas: 1, apiServerFlags: ['--enable-aggregator-routing=true'] });
    const { cluster, address } = story;
    await cluster.apply(`${controllerService(address, [9001])}---${USERS}`);
    await untilAggregated(cluster);
    const drop = { name: 'close', action: 'Drop', ports: [tcp(80)], enableLogging: true };
    await story.applied(closed('web', 80, { ingress: [drop] }));
    await story.statusIs('web', realized(2));
    await story.sees('other0', 'worker-1', 80, 'closed');
  });
  after(async () => {
    for (const one of browsers) await one.close();
    for (const one of doors) await one.end();
    await story?.close();
  });

  /** The console as a user opens it. */
  async function opened(user: string): Promise<{ page: Page; problems: readonly string[] }> {
    const { cluster, controlPlane } = story;
    const token = await cluster.token(`default/${user}`);
    const kubeconfig = await cluster.kubeconfigFor(user, { token });
    const door = await startDoor(controlPlane, cluster.folder, ['--kubeconfig', kubeconfig]);
    doors.push(door);
    const { port, origin } = new URL(door.url);
    const browser = await startBrowser(join(cluster.folder, `door-${port}.socket`), Number(port));
    browsers.push(browser);
    assert.equal(browser.origin, origin, 'the door wants its own name');
    const page = await browser.browser.newPage({ viewport: { width: 1280, height: 800 } });
    const problems: string[] = [];
    page.on('pageerror', ({ message }) => problems.push(message));
    page.on('console', (message) => problems.push(message.text()));
    await page.goto(door.url);
    return { page, problems };
  }

  it('shows what is in force, changes as they come, drops, a verdict, a preview, and lint', async () => {
    const { page, problems } = await opened('jane');
    const go = async (name: string): Promise<void> => {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { level: 1, name }).waitFor();
    };
    await page.getByText('Live · cluster').waitFor();
    await page.getByRole('row', { name: /^▸? ?web .*Realized.*2 of 2 nodes/ }).waitFor();
    await story.applied(closed('later', 8080));
    await page.getByRole('row', { name: /later.*2 of 2 nodes/ }).waitFor();
    await go('Explain');
    await page.getByRole('combobox', { name: 'Node' }).fill('worker-1');
    await page.getByRole('textbox', { name: 'From address' }).fill('203.0.113.9');
    await page.getByRole('textbox', { name: 'To port' }).fill('80');
    await page.keyboard.press('Enter');
    await page.getByText('Drop: rule web/close').waitFor();
    await go('Preview');
    await page.getByRole('textbox').fill(NEW);
    await page.getByRole('button', { name: 'Show what changes' }).click();
    await page
      .getByRole('row', { name: /newly denied ingress tcp port 22/ })
      .first()
      .waitFor();
    await go('Drops');
    await page
      .getByRole('row', { name: /tcp 80.*web\/close/ })
      .first()
      .waitFor();
    for (const [name, text] of [
      ['Audit', 'No policy has mode: Audit.'],
      ['Rollouts', 'No policy has a rollout'],
    ] as const) {
      await go(name);
      await page.getByText(text).waitFor();
    }
    await go('Lint');
    await page.getByText(/findings? as of|Nothing to say/).waitFor();
    assert.deepEqual(problems, [], 'errors of scripts, and violations of the policy');
  });

  it('tells who may not read which right is missing', async () => {
    const { page } = await opened('mallory');
    const alert = page.getByRole('alert');
    await alert.getByText(/"watch".*overviews|overviews.*watch/).waitFor();
    await alert
      .getByText(/nodewall-view/)
      .first()
      .waitFor();
    await page.getByRole('link', { name: 'Lint' }).click();
    await alert
      .getByText(/overviews/)
      .first()
      .waitFor();
  });
});
