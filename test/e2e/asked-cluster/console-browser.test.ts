/**
 * The whole way: a browser asks `nodewall console` or `kubectl proxy`, which ask a real API server,
 * which asks a controller, which asks agents.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Page } from 'playwright-core';
import { CONSOLE_PATH } from '../../../apis/console.ts';
import { PAGE_HEADERS } from '../../../controller/console/static-files.ts';
import { usersYaml } from '../../cluster/admin-api.ts';
import { browserFiles, goByKeyboard, startBrowser } from '../../console/browser.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { type Namespace, relay } from '../../netns/namespace.ts';
import { ROOT } from '../../structure/source-file.ts';
import { startDoor } from '../console-door.ts';
import { askedCluster } from '../labs.ts';
import { closed, type Story } from '../story-bed.ts';

/** Ben may open the pages, and read nothing. */
const BEN = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: console-files}
rules: [{apiGroups: [controlplane.nodewall.io], resources: [console], verbs: [get]}]
---${usersYaml({ ben: ['console-files'] })}`;
const NEW = `apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ssh}
spec:
  priority: 5
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: no-ssh, action: Drop, ports: [{protocol: TCP, port: 22}]}]
`;

/** The flag that docs/console.md gives to kubectl proxy. */
function narrowing(): string {
  const text = readFileSync(join(ROOT, 'docs/console.md'), 'utf8');
  const [, flag, paths] = /^kubectl proxy (--accept-paths=)'([^']+)'$/m.exec(text) ?? [];
  return `${flag ?? assert.fail('docs/console.md narrows kubectl proxy')}${paths}`;
}

/** How a browser comes to the console. */
interface Way {
  readonly url: string;
  /** By which its server is reached from outside of its namespace. */
  readonly socketPath: string;
}

/** Of controllers that serve the console's files. */
kernelSuite('the console of a real cluster, in a browser', () => {
  const bed = askedCluster.use();
  let story: Story;
  let kubeconfigs: Readonly<Record<'jane' | 'ben', string>>;
  let files: string;
  const endings: (() => Promise<unknown>)[] = [];

  before(async function () {
    // The first one on a machine makes them.
    this.timeout(1_800_000);
    files = await browserFiles();
    ({ story } = bed());
    const { cluster } = story;
    await cluster.apply(BEN);
    const ben = await cluster.kubeconfigFor('ben', { token: await cluster.token('default/ben') });
    kubeconfigs = { jane: bed().kubeconfigs.jane, ben };
    await bed().renewed();
  });
  after(async () => {
    for (const end of endings.reverse()) await end();
  });

  /** Both ways lead a browser to the same API server, which asks the same controller. */
  const WAYS: Readonly<Record<string, (user: 'jane' | 'ben') => Promise<Way>>> = {
    'nodewall console': async (user) => {
      const { cluster, controlPlane } = story;
      const door = await startDoor(controlPlane, cluster.folder, ['--kubeconfig', kubeconfigs[user]]);
      endings.push(() => door.end());
      return { url: door.url, socketPath: door.socketPath };
    },
    'kubectl proxy': async (user) => {
      const { cluster, controlPlane } = story;
      const { program, folder } = cluster;
      const files = { program, folder, kubeconfig: kubeconfigs[user] };
      const proxy = await startKubectlProxy(controlPlane, files, [narrowing()]);
      endings.push(() => proxy.end());
      return {
        url: `http://127.0.0.1:${proxy.port}${CONSOLE_PATH}/index.html`,
        socketPath: proxy.socketPath,
      };
    },
  };

  /** The console as a user opens it. */
  async function opened(
    user: 'jane' | 'ben',
    way: string,
  ): Promise<{ page: Page; problems: readonly string[] }> {
    const { url, socketPath } = (await WAYS[way]?.(user)) ?? assert.fail(way);
    const { port, origin } = new URL(url);
    const browser = await startBrowser(socketPath, Number(port), files);
    endings.push(() => browser.close());
    assert.equal(browser.origin, origin, 'the door wants its own name');
    const page = await browser.browser.newPage({ viewport: { width: 1280, height: 800 } });
    const problems: string[] = [];
    page.on('pageerror', ({ message }) => problems.push(message));
    page.on('console', (message) => problems.push(message.text()));
    page.on('request', (request) => {
      if (!request.url().startsWith(`${origin}/`)) problems.push(`a request elsewhere: ${request.url()}`);
    });
    const answer = await page.goto(url);
    assert.equal(answer?.headers()['content-security-policy'], PAGE_HEADERS['content-security-policy']);
    return { page, problems };
  }

  for (const way of Object.keys(WAYS))
    it(`shows what is in force, changes as they come, drops, a verdict, a preview, and lint, by ${way}`, async () => {
      const { page, problems } = await opened('jane', way);
      const go = async (name: string): Promise<void> => {
        await goByKeyboard(page, name);
        await page.getByRole('heading', { level: 1, name }).waitFor();
      };
      await page.getByText('Live · cluster').waitFor();
      await page.getByRole('row', { name: /^▸? ?web .*Realized.*2 of 2 nodes/ }).waitFor();
      const later = `later-by-${way.replace(' ', '-')}`;
      await story.applied(closed(later, 8080));
      await page.getByRole('row', { name: new RegExp(`${later}.*2 of 2 nodes`) }).waitFor();
      await go('Explain');
      await page.getByRole('combobox', { name: 'Node' }).fill('worker-1');
      await page.getByRole('textbox', { name: 'From address' }).fill('203.0.113.9');
      await page.getByRole('textbox', { name: 'To port' }).fill('80');
      await page.keyboard.press('Enter');
      await page.getByText('Drop: rule web/close').waitFor();
      await go('Preview');
      await page.getByRole('textbox').fill(NEW);
      await page.keyboard.press('Control+Enter');
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
      // The stream of the overview is open still.
      await page.getByText('Live · cluster').waitFor();
      assert.deepEqual(problems, [], 'errors of scripts, and violations of the policy');
    });

  for (const way of Object.keys(WAYS))
    it(`tells who may not read which right is missing, by ${way}`, async () => {
      const { page } = await opened('ben', way);
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

  it('leaves out what docs/console.md says that kubectl proxy leaves out', async () => {
    const { socketPath, url } = (await WAYS['kubectl proxy']?.('jane')) ?? assert.fail();
    const { host } = new URL(url);
    const status = async (path: string, method = 'GET', as = host): Promise<number | undefined> => {
      const options = { socketPath, path, method, agent: false, setHost: false, headers: { host: as } };
      const [answer] = (await once(request(options).end(), 'response')) as [IncomingMessage];
      answer.resume();
      return answer.statusCode;
    };
    const page = `${CONSOLE_PATH}/index.html`;
    assert.equal(await status(page), 200);
    const policies = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
    for (const path of [policies, '/api/v1/namespaces', '/apis/controlplane.nodewall.iox/v1', '/version'])
      assert.equal(await status(path), 403, path);
    assert.equal(await status(policies, 'POST'), 403);
    // It leads to the path without dots, which is refused.
    const dots = await status('/apis/controlplane.nodewall.io/../../api/v1/namespaces');
    assert.ok(dots === 301 || dots === 307, String(dots));
    assert.equal(await status(page, 'GET', 'evil.example'), 403, 'DNS rebinding');
  });
});

/** A running `kubectl proxy`. */
interface KubectlProxy {
  /** Of loopback in its namespace. */
  readonly port: number;
  /** By which it is reached from outside of its namespace. */
  readonly socketPath: string;
  end(): Promise<void>;
}

/**
 * Starts the real `kubectl proxy`, as its users do.
 *
 * @param program test/cluster/build.ts
 * @param folder for the socket by which it is reached from outside of the namespace
 */
async function startKubectlProxy(
  inside: Namespace,
  { program, folder, kubeconfig }: Readonly<Record<'program' | 'folder' | 'kubeconfig', string>>,
  flags: readonly string[] = [],
): Promise<KubectlProxy> {
  const env = { ...process.env, HOME: folder, KUBECONFIG: kubeconfig };
  const child = inside.spawn([program, 'kubectl', 'proxy', '--port=0', ...flags], { env });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    said += piece;
  });
  const ended = once(child, 'close');
  const line = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
  const [, port] = /^Starting to serve on 127\.0\.0\.1:(\d+)$/.exec(String(line[0])) ?? [];
  if (port === undefined) throw new Error(`kubectl proxy: ${line[0]}: ${said}`);
  const socketPath = join(folder, `proxy-${port}.socket`);
  await relay(inside, { path: socketPath }, { host: '127.0.0.1', port: Number(port) });
  return {
    port: Number(port),
    socketPath,
    async end() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
