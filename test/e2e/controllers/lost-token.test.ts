import assert from 'node:assert/strict';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { freePorts } from '../../cluster/daemon.ts';
import { until } from '../../kernel/until.ts';
import { ROOT } from '../../structure/source-file.ts';
import { ControllerProcess } from '../controller-process.ts';
import { apiServer } from '../labs.ts';

const ACCOUNT = 'nodewall-system/nodewall-controller';
const REFUSED = /does not accept the token \(401\): was the ServiceAccount made again\? Restart the pods: /;
const LIMIT = 180_000;

/** For a cluster that has nodewall's kinds. Other tokens of the account are worthless after it. */
describe('a controller whose ServiceAccount was deleted and made again', function () {
  this.timeout(3 * LIMIT);
  const begun = apiServer.use();
  let controller: ControllerProcess;
  after(() => controller?.stop('SIGKILL'));

  it('is not ready and says why in one line, and is ready again with the next token', async () => {
    const cluster = begun();
    const rights = await readFile(join(ROOT, 'deploy/rbac.yaml'), 'utf8');
    await cluster.apply(rights);
    const tokenFile = join(cluster.folder, 'mounted-token');
    // By rename, as the kubelet replaces a mounted token.
    const mount = async (): Promise<void> => {
      await writeFile(`${tokenFile}.new`, await cluster.token(ACCOUNT), { mode: 0o600 });
      await rename(`${tokenFile}.new`, tokenFile);
    };
    await mount();
    const kubeconfig = await cluster.kubeconfigFor('mounted', { token: '' });
    const content = parse(await readFile(kubeconfig, 'utf8'));
    content.users[0].user = { 'auth-provider': { name: 'tokenFile', config: { tokenFile } } };
    await writeFile(kubeconfig, stringify(content));
    const [port = 0] = await freePorts(1);
    controller = await ControllerProcess.start({ kubeconfig, port, peers: [] });
    await controller.untilReady();

    const { code, stderr } = await cluster.kubectl([
      ...['delete', 'serviceaccount', 'nodewall-controller', '--namespace=nodewall-system'],
    ]);
    assert.equal(code, 0, stderr);
    const before = controller.log.length;
    await cluster.apply(rights);
    const detail = (): string => controller.log.slice(before).join('\n');
    const isRefused = async (): Promise<boolean> => REFUSED.test(await controller.ready());
    await until('it is not ready, and says why', isRefused, { limit: LIMIT, detail });
    const said = (): number => controller.log.slice(before).filter((line) => REFUSED.test(line)).length;
    await until('it says so', async () => said() > 0, { limit: LIMIT, detail });
    assert.equal(controller.isRunning(), true);

    await mount();
    const isReady = async (): Promise<boolean> => (await controller.ready()) === '200 ok';
    await until('it is ready again', isReady, { limit: LIMIT, detail });
    assert.equal(said(), 1, detail());
  });
});
