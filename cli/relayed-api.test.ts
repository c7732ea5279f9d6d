import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { KubeRequest } from '../controller/kubeapi/kube-api.ts';
import { KubeError } from '../controller/kubeapi/kube-error.ts';
import { RelayedApi } from './relayed-api.ts';

const VIEWS = '/apis/controlplane.nodewall.io/v1alpha1/nodeviews';
/** Answers each line with its path, and a path that ends in `none` as a controller would. */
const POD = `
const { createInterface } = require('node:readline');
require('node:fs').appendFileSync(process.env.CALLS, JSON.stringify(process.argv.slice(2)) + '\\n');
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, path, query } = JSON.parse(line);
  const error = { message: 'there is no Node none', status: 404, reason: 'NotFound' };
  console.log(JSON.stringify(path.endsWith('none') ? { id, error } : { id, value: { path, query } }));
});`;

describe('requests for the aggregated API where it is off', () => {
  const saved = { PATH: process.env.PATH, CALLS: process.env.CALLS };
  let folder: string;
  let asked: KubeRequest[];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nodewall-relay-'));
    asked = [];
    process.env.PATH = `${folder}${delimiter}${saved.PATH}`;
    process.env.CALLS = join(folder, 'calls');
  });
  afterEach(() => {
    for (const [name, value] of Object.entries(saved)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    rmSync(folder, { recursive: true });
  });

  function kubectl(program: string): void {
    writeFileSync(join(folder, 'pod.cjs'), program);
    writeFileSync(join(folder, 'kubectl'), `#!/bin/sh\nexec ${process.execPath} ${folder}/pod.cjs "$@"\n`);
    chmodSync(join(folder, 'kubectl'), 0o755);
  }

  function api(
    refusal: { status?: number; message?: string; kubeconfig?: string | undefined } = {},
  ): RelayedApi {
    const { status = 404, message = `404 page not found (GET ${VIEWS}: 404 NotFound)` } = refusal;
    const request = async (wanted: KubeRequest): Promise<never> => {
      asked.push(wanted);
      throw new KubeError(message, { status, reason: status === 404 ? 'NotFound' : 'Forbidden' });
    };
    return new RelayedApi(request, 'kubeconfig' in refusal ? refusal.kubeconfig : '/k.yaml');
  }

  it('go by one session in a pod of the controllers, which answers as the API would', async () => {
    kubectl(POD);
    const relayed = api();
    const get = (path: string) => relayed.request({ method: 'GET', path, query: { limit: '5' } });
    assert.deepEqual(await get(VIEWS), { path: VIEWS, query: { limit: '5' } });
    const paths = ['a', 'b', 'c'].map((name) => `${VIEWS}/${name}`);
    const answers = await Promise.all(paths.map(get));
    assert.deepEqual(
      answers,
      paths.map((path) => ({ path, query: { limit: '5' } })),
    );
    await assert.rejects(get(`${VIEWS}/none`), { name: 'KubeError', reason: 'NotFound', status: 404 });
    relayed.close();
    assert.equal(asked.length, 1, 'the API server is asked once');
    const calls = readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n');
    assert.deepEqual(
      calls.map((line) => JSON.parse(line)),
      [
        [
          ...['--kubeconfig', '/k.yaml', '--namespace', 'nodewall-system', 'exec', '-i'],
          ...['deployment/nodewall-controller', '-c', 'controller', '--', 'nodewall', 'relay'],
        ],
      ],
    );
  });

  it('go to the controllers from a pod itself, by this program', async () => {
    const [, program = ''] = process.argv;
    writeFileSync(join(folder, 'main.cjs'), POD);
    process.argv[1] = join(folder, 'main.cjs');
    try {
      const relayed = api({ kubeconfig: undefined });
      assert.deepEqual(await relayed.request({ method: 'GET', path: VIEWS }), { path: VIEWS });
      relayed.close();
      assert.equal(readFileSync(join(folder, 'calls'), 'utf8'), '["relay"]\n');
      writeFileSync(join(folder, 'main.cjs'), "console.error('getaddrinfo ENOTFOUND'); process.exit(1)");
      await assert.rejects(
        api({ kubeconfig: undefined }).request({ method: 'GET', path: VIEWS }),
        /and the controllers do not answer in its place: getaddrinfo ENOTFOUND/,
      );
    } finally {
      process.argv[1] = program;
    }
  });

  it('name the right and the reason where there is none', async () => {
    kubectl("console.error('pods is forbidden: jane cannot create pods/exec'); process.exit(1)");
    await assert.rejects(
      api().request({ method: 'GET', path: VIEWS }),
      /aggregatedAPI is false.*right to create pods\/exec in nodewall-system: pods is forbidden: jane/,
    );
    rmSync(join(folder, 'kubectl'));
    process.env.PATH = folder;
    await assert.rejects(api().request({ method: 'GET', path: VIEWS }), /spawn kubectl ENOENT/);
  });

  it('pass over lines that are no answers', async () => {
    kubectl(
      `console.log('kubectl: a newer version is there'); console.log('null'); console.log('{}');\n${POD}`,
    );
    const relayed = api();
    assert.deepEqual(await relayed.request({ method: 'GET', path: VIEWS }), { path: VIEWS });
    relayed.close();
  });

  it('end at once where their signal was aborted before', async () => {
    kubectl('setInterval(() => {}, 1000)\nprocess.stdin.on("end", () => process.exit()).resume()');
    const relayed = api();
    const wanted = { method: 'GET', path: VIEWS, signal: AbortSignal.abort() } as const;
    await assert.rejects(relayed.request(wanted), { name: 'KubeError', reason: 'Timeout' });
    relayed.close();
  });

  it("are the API server's alone where it is there, and all others always", async () => {
    kubectl(POD);
    const refused = api({ status: 403, message: 'nodeviews is forbidden' });
    await assert.rejects(refused.request({ method: 'GET', path: VIEWS }), { reason: 'Forbidden' });
    const ofController = api({ message: 'there is no Node a (GET x: 404 NotFound)' });
    await assert.rejects(ofController.request({ method: 'GET', path: `${VIEWS}/a` }), { reason: 'NotFound' });
    await assert.rejects(api().request({ method: 'GET', path: '/api/v1/nodes' }), { reason: 'NotFound' });
    assert.throws(() => readFileSync(join(folder, 'calls')), { code: 'ENOENT' });
  });
});
