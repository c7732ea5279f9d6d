import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent } from 'node:https';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type Authority, createAuthority } from '../../test/cluster/certificates.ts';
import { JSON_TYPE, REPORT, ServerBed } from '../../test/fake/server-bed.ts';

const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

describe('controlPlaneServer', () => {
  const bed = new ServerBed();
  const { start, send, ask, watch } = bed;

  it('serves agents only the view of their own node', async () => {
    const running = await start();
    const selected = (name: string) => `${NODE_VIEWS_PATH}?watch=1&fieldSelector=metadata.name=${name}`;
    const put = {
      method: 'PUT',
      headers: JSON_TYPE,
      body: JSON.stringify(REPORT),
    };
    assert.equal((await ask(running, `${NODE_VIEWS_PATH}/cp-1`, 'agent.cp-1')).code, 200);
    for (const [path, token, options] of [
      [selected('cp-1'), 'agent.cp-2', {}],
      [selected('cp-1'), 'agent.', {}],
      [`${NODE_VIEWS_PATH}/cp-1`, 'agent.cp-2', {}],
      [NODE_VIEWS_PATH, 'agent.cp-1', {}],
      [`${NODE_VIEWS_PATH}/cp-1/status`, 'agent.cp-2', put],
    ] as const) {
      const { code, body } = await ask(running, path, token, options);
      assert.deepEqual([code, (body as { reason: string }).reason], [403, 'Forbidden'], path);
    }
    assert.deepEqual(running.asked, []);
    assert.deepEqual(running.reports, []);
  });

  it('authorises other users by the API server', async () => {
    const running = await start();
    const base = { group: 'controlplane.nodewall.io', version: 'v1alpha1', resource: 'nodeviews' };
    assert.equal((await ask(running, NODE_VIEWS_PATH, 'user.alice')).code, 200);
    const { code, body } = await ask(running, `${NODE_VIEWS_PATH}/cp-1`, 'user.mallory');
    assert.equal(code, 403);
    assert.match(JSON.stringify(body), /mallory.* may not get nodeviews cp-1: no role/);
    await (await watch(running, 'user.alice')).batch();
    assert.deepEqual(running.asked, [
      { ...base, verb: 'list' },
      { ...base, verb: 'get', name: 'cp-1' },
      { ...base, verb: 'watch', name: 'cp-1' },
    ]);
  });

  it('rejects invalid requests with Status objects', async () => {
    const running = await start();
    const json = JSON_TYPE;
    const status = `${NODE_VIEWS_PATH}/cp-1/status`;
    const put = (body: string | Buffer, headers: object = json) => ({
      method: 'PUT',
      headers: headers as Record<string, string>,
      body,
    });
    const cases: [number, string, string, Parameters<typeof send>[3]?][] = [
      [401, NODE_VIEWS_PATH, ''],
      [401, '/apis', 'nobody'],
      [404, '/', 'user.a'],
      [404, `${NODE_VIEWS_PATH}/cp-1/other`, 'user.a'],
      [404, `${NODE_VIEWS_PATH}/cp-9`, 'user.a'],
      [400, `${NODE_VIEWS_PATH}/..%2F`, 'user.a'],
      [400, `${NODE_VIEWS_PATH}/%ff`, 'user.a'],
      [405, NODE_VIEWS_PATH, 'user.a', { method: 'DELETE' }],
      [405, `${NODE_VIEWS_PATH}/cp-1`, 'user.a', { method: 'PUT' }],
      [405, status, 'agent.cp-1'],
      [405, '/apis', 'user.a', { method: 'POST' }],
      [400, `${NODE_VIEWS_PATH}?watch=true`, 'user.a'],
      [400, `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=cp-1&labelSelector=a`, 'user.a'],
      [400, `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=cp-1&timeoutSeconds=x`, 'user.a'],
      [
        400,
        `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=cp-1`,
        'user.a',
        { headers: { accept: TABLE } },
      ],
      [400, `${NODE_VIEWS_PATH}?fieldSelector=spec.x=1`, 'user.a'],
      [400, `${NODE_VIEWS_PATH}?labelSelector=a`, 'user.a'],
      [415, status, 'agent.cp-1', put('{}', { 'content-type': 'text/plain' })],
      [415, status, 'agent.cp-1', put('{}', {})],
      [413, status, 'agent.cp-1', put(Buffer.alloc(300 << 10, 32))],
      [
        413,
        status,
        'agent.cp-1',
        { ...put(Buffer.alloc(300 << 10, 32), { ...json, 'transfer-encoding': 'chunked' }), endless: true },
      ],
      [400, status, 'agent.cp-1', put('{')],
      [422, status, 'agent.cp-1', put('{}')],
      [404, `${NODE_VIEWS_PATH}/cp-9/status`, 'agent.cp-9', put('{}')],
    ];
    for (const [wanted, path, token, options] of cases) {
      const { code, body, message } = await ask(running, path, token, options);
      const found = body as { kind: string; code: number; status: string };
      assert.deepEqual(
        [code, found.kind, found.code, found.status],
        [wanted, 'Status', wanted, 'Failure'],
        `${path} ${JSON.stringify(body)}`,
      );
      if (code === 405) assert.ok(message.headers.allow);
    }
    assert.equal(running.server.stats().answers.get(405), 4);
    assert.deepEqual(running.reports, []);
  });

  it('answers 503 before the first state, and while authentication is unavailable', async () => {
    const early = await start({}, false);
    for (const path of [
      NODE_VIEWS_PATH,
      `${NODE_VIEWS_PATH}/cp-1`,
      `${NODE_VIEWS_PATH}?watch=1&fieldSelector=metadata.name=cp-1`,
    ]) {
      const { code, message } = await ask(early, path, 'user.a');
      assert.deepEqual([code, message.headers['retry-after']], [503, '1']);
    }
    const running = await start();
    running.unavailable = true;
    assert.equal((await ask(running, NODE_VIEWS_PATH, 'user.a')).code, 503);
  });

  it('serves API discovery', async () => {
    const running = await start();
    const group = '/apis/controlplane.nodewall.io';
    for (const [path, kind] of [
      ['/apis', 'APIGroupList'],
      [group, 'APIGroup'],
      [`${group}/v1alpha1`, 'APIResourceList'],
    ] as const) {
      const { code, body } = await ask(running, path, 'user.a');
      assert.deepEqual([code, (body as { kind: string }).kind], [200, kind]);
    }
    for (const path of ['/openapi/v2', '/openapi/v3', `/openapi/v3${group}/v1alpha1`])
      assert.equal((await ask(running, path, 'user.a')).code, 200, path);
  });

  it('trusts the front proxy by its certificate only', async () => {
    const running = await start();
    const headers = { 'X-Remote-User': 'alice', 'X-Remote-Group': 'g' };
    const cert = async (authority: Authority, commonName: string) => {
      const { certificate, key } = await authority.issue({ commonName, usage: 'client' });
      return { cert: certificate, key, headers };
    };
    const strangers = await createAuthority('strangers');
    const proxy = await cert(bed.proxies, 'front-proxy-client');
    assert.equal((await ask(running, NODE_VIEWS_PATH, '', proxy)).code, 200);
    for (const other of [
      { headers },
      await cert(bed.proxies, 'kubelet'),
      await cert(strangers, 'front-proxy-client'),
    ])
      assert.equal((await ask(running, NODE_VIEWS_PATH, '', other)).code, 401);
    running.server.setTls({ key: bed.serving.key, cert: bed.serving.certificate });
    assert.equal(
      (await ask(running, NODE_VIEWS_PATH, '', proxy)).code,
      401,
      'no client CA: nobody is trusted',
    );
  });

  it('uses a new certificate for new connections', async () => {
    const running = await start();
    const others = await createAuthority('new');
    const { key, certificate } = await others.issue({
      commonName: 'c',
      names: ['localhost'],
      usage: 'server',
    });
    running.server.setTls({ key, cert: certificate });
    await assert.rejects(ask(running, '/apis', 'user.a'));
    assert.equal((await ask(running, '/apis', 'user.a', { ca: others.certificate })).code, 200);
  });

  it('reads no more requests than it answers', async () => {
    let asked = 0;
    const running = await start({
      authenticate: () => {
        asked++;
        return new Promise(() => {});
      },
    });
    const socket = bed.connect(running);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write('GET /apis HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n'.repeat(10_000));
    socket.resume();
    await closed;
    assert.ok(asked <= 4, String(asked));
    // Sequential requests are not limited.
    const other = await start();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let i = 0; i < 20; i++) assert.equal((await ask(other, '/apis', 'user.a', { agent })).code, 200);
    agent.destroy();
  });

  it('closes without waiting for a client that does not speak', async () => {
    const running = await start({ limits: { grace: 50, handshake: 60_000 } });
    const socket = net.connect(running.port, 'localhost');
    await once(socket, 'connect');
    const ended = once(socket, 'close');
    await running.server.close();
    await ended;
  });

  it('says nothing of a client that goes before its body has ended', async () => {
    const running = await start();
    const socket = bed.connect(running);
    const head = ['content-type: application/json', 'content-length: 100', 'expect: 100-continue'];
    const lines = ['host: localhost', 'authorization: Bearer agent.cp-1', ...head];
    socket.write(`PUT ${NODE_VIEWS_PATH}/cp-1/status HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n{`);
    // "100 Continue": its body is read.
    await once(socket, 'data');
    socket.destroy();
    await running.server.close();
    // The error reaches the handler some turns after the connection has closed.
    for (let turns = 0; turns < 10; turns++) await setImmediate();
    assert.deepEqual(running.events, []);
    assert.deepEqual([...running.server.stats().answers], []);
  });

  it('answers invalid HTTP and an endless head', async () => {
    const running = await start({ limits: { head: 8 << 10 } });
    for (const [head, wanted] of [
      ['nonsense\r\n\r\n', '400'],
      [`GET / HTTP/1.1\r\nX: ${'x'.repeat(10 << 10)}\r\n\r\n`, '431'],
    ] as const) {
      const socket = bed.connect(running);
      socket.end(head);
      const answer = await text(socket);
      assert.ok(answer.startsWith(`HTTP/1.1 ${wanted}`), answer);
    }
  });
});
