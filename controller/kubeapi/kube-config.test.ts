import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MODULE = new URL('kube-config.ts', import.meta.url).href;

/** In a process of its own: other tests here load the whole library. */
async function alone(script: string): Promise<unknown> {
  const importing = `import { emptyLike, kubeConfigClass } from '${MODULE}';`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', `${importing}${script}`]);
  return JSON.parse(stdout);
}

describe('kubeConfigClass', () => {
  it('loads the reader of kubeconfigs, and no API client', async () => {
    const loaded = (await alone(`
      import { registerHooks } from 'node:module';
      const loaded = [];
      registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
      await kubeConfigClass();
      console.log(JSON.stringify(loaded));`)) as string[];
    const library = loaded.filter((url) => url.includes('/@kubernetes/client-node/'));
    assert.ok(library.some((url) => url.endsWith('/dist/config.js')));
    const generated = library.filter((url) => url.includes('/gen/') && !url.endsWith('/gen/rxjsStub.js'));
    assert.deepEqual(generated, []);
  });

  it('says what is missing where somebody makes a client of the library', async () => {
    const [message, isSame, cluster] = (await alone(`
      const KubeConfig = await kubeConfigClass();
      const one = new KubeConfig();
      one.loadFromClusterAndUser({ name: 'c', server: 'https://192.0.2.1' }, { name: 'u' });
      let message = null;
      try { one.makeApiClient(class {}); } catch (error) { message = error.message; }
      const another = emptyLike(one);
      console.log(JSON.stringify([message, another instanceof KubeConfig, another.getCurrentCluster()]));`)) as unknown[];
    assert.match(String(message), /are not loaded; use KubeApi/);
    assert.equal(isSame, true);
    assert.equal(cluster, null);
  });
});
