import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { CONSOLE_PATH, PREVIEWS_PATH } from '../apis/console.ts';
import { Door, type LetIn } from './console-door.ts';

describe('the door of the console', () => {
  const seen: string[] = [];
  let fails = false;
  const door = new Door({
    port: 0,
    async serve({ request, response, path, query }: LetIn) {
      if (fails) throw new Error('the API server is away');
      seen.push(`${request.method} ${path}${query === '' ? '' : `?${query}`}`);
      response.end('inside');
    },
  });
  let url: URL;
  let prefix = '';
  before(async () => {
    url = new URL(await door.open());
    prefix = `/${url.pathname.split('/')[1]}`;
  });
  after(() => door.close());
  beforeEach(() => {
    seen.length = 0;
    fails = false;
  });

  /** Sends a head as it is; returns the status and the rest. */
  async function raw(...lines: readonly string[]): Promise<{ status: number; answer: string }> {
    const socket = connect(Number(url.port), '127.0.0.1');
    await once(socket, 'connect');
    socket.end(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`);
    const answer = await text(socket);
    return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]), answer };
  }
  const get = (path: string, ...headers: readonly string[]) =>
    raw(
      `GET ${path} HTTP/1.1`,
      ...(headers.some((one) => /^host:/i.test(one)) ? [] : [`Host: ${url.host}`]),
      ...headers,
    );

  it('lets its own pages in, by both names of this machine', async () => {
    const page = `${prefix}${CONSOLE_PATH}/index.html`;
    assert.equal(url.pathname, page);
    assert.equal((await get(page)).status, 200);
    assert.equal((await get(`${page}?a=%2F`, `Host: localhost:${url.port}`)).status, 200);
    assert.deepEqual(seen, [`GET ${CONSOLE_PATH}/index.html`, `GET ${CONSOLE_PATH}/index.html?a=%2F`]);
  });

  it('has a secret of at least 128 bits that differs each time', async () => {
    const other = new Door({ port: 0, serve: async () => undefined });
    const secret = new URL(await other.open()).pathname.split('/')[1] ?? '';
    await other.close();
    assert.ok(Buffer.from(secret, 'base64url').length >= 16);
    assert.notEqual(`/${secret}`, prefix);
  });

  it('is behind its secret', async () => {
    const others = [
      '',
      '/',
      '/x',
      prefix.slice(0, -1),
      `${prefix}x`,
      `/${'a'.repeat(prefix.length - 1)}`,
      prefix.toUpperCase(),
    ];
    for (const other of others)
      assert.equal((await get(`${other}${CONSOLE_PATH}/index.html`)).status, 404, other);
    assert.deepEqual(seen, []);
  });

  it('refuses other hosts, also beside its own, and none', async () => {
    const page = `${prefix}${CONSOLE_PATH}/index.html`;
    for (const host of [
      'evil.example',
      `evil.example:${url.port}`,
      '127.0.0.1',
      `127.0.0.1.evil.example:${url.port}`,
      `[::1]:${url.port}`,
    ])
      assert.equal((await get(page, `Host: ${host}`)).status, 403, host);
    assert.notEqual((await get(page, `Host: ${url.host}`, 'Host: evil.example')).status, 200);
    assert.notEqual((await raw(`GET ${page} HTTP/1.1`)).status, 200);
    assert.notEqual((await raw(`GET http://${url.host}${page} HTTP/1.1`, `Host: ${url.host}`)).status, 200);
    assert.deepEqual(seen, []);
  });

  it('refuses paths that lead elsewhere, however they are written', async () => {
    const tricks = [
      ...[
        '/api/v1/secrets',
        '/apis/apps/v1/deployments',
        '/apis',
        '/',
        '/apis/nodewall.iox',
        '/apis/xnodewall.io',
      ],
      ...[
        '/apis/nodewall.io/../apps',
        '/apis/nodewall.io/..',
        '/apis/nodewall.io/./x',
        '/apis/nodewall.io//x',
      ],
      ...['/apis/nodewall.io/..%2fapps', '/apis/nodewall.io/%2e%2e/apps', '/apis/nodewall.io/%2E%2E%2Fapps'],
      ...['/apis/nodewall.io/%252e%252e/apps', '/apis/nodewall.io/..%5capps', '/apis/nodewall.io/..\\apps'],
      ...[
        '/apis/nodewall.io/..;/apps',
        '/apis/nodewall.io/a%00b',
        '//apis/nodewall.io',
        '/x/../apis/nodewall.io',
      ],
      ...['/APIS/nodewall.io', '/apis/nodewall.io@evil.example/', '/apis/nodewall.io:80@evil.example'],
    ];
    for (const path of tricks) assert.equal((await get(`${prefix}${path}`)).status, 403, path);
    assert.deepEqual(seen, []);
  });

  it('refuses what is no read, but for a preview as JSON', async () => {
    const policies = `${prefix}/apis/nodewall.io/v1alpha1/clusternetworkpolicies`;
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'])
      assert.equal((await raw(`${method} ${policies} HTTP/1.1`, `Host: ${url.host}`)).status, 405, method);
    const preview = (...headers: readonly string[]) =>
      raw(`POST ${prefix}${PREVIEWS_PATH} HTTP/1.1`, `Host: ${url.host}`, 'Content-Length: 0', ...headers);
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx'])
      assert.equal((await preview(`Content-Type: ${type}`)).status, 415, type);
    assert.equal((await preview()).status, 415);
    assert.deepEqual(seen, []);
    assert.equal((await preview('Content-Type: application/json')).status, 200);
  });

  it('refuses pages of other sites, by what browsers say of a request', async () => {
    const page = `${prefix}${CONSOLE_PATH}/index.html`;
    const others = [
      ['Origin: https://evil.example'],
      ['Origin: null'],
      [`Origin: https://${url.host}`],
      ['Sec-Fetch-Site: cross-site'],
      ['Sec-Fetch-Site: same-site', 'Sec-Fetch-Mode: cors', 'Sec-Fetch-Dest: empty'],
      ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: iframe'],
      ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: no-cors', 'Sec-Fetch-Dest: script'],
    ];
    for (const headers of others) assert.equal((await get(page, ...headers)).status, 403, headers.join());
    assert.deepEqual(seen, []);
    const own = [`Origin: http://${url.host}`, 'Sec-Fetch-Site: same-origin'];
    assert.equal((await get(page, ...own)).status, 200);
    const typed = ['Sec-Fetch-Site: none', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document'];
    assert.equal((await get(page, ...typed)).status, 200);
  });

  it('tells the reason where there is no answer, and its secret nobody', async () => {
    fails = true;
    const { status, answer } = await get(`${prefix}${CONSOLE_PATH}/index.html`);
    assert.deepEqual([status, /the API server is away/.test(answer)], [502, true]);
    const { answer: refused } = await get('/wrong');
    assert.match(refused, /^Referrer-Policy: no-referrer\r$/im);
    assert.ok(!refused.includes(prefix));
  });
});
