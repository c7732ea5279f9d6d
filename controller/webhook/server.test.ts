import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server, request as send } from 'node:http';
import { Agent, request as sendTls } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { type ClusterNetworkPolicy, NO_OBJECTS, type Tier } from '../../apis/objects.ts';
import { plainStep } from '../../test/abuse/bodies.ts';
import { createAuthority } from '../../test/cluster/certificates.ts';
import type { AdmissionWorld } from './admission.ts';
import { admitBody } from './admit-body.ts';
import { type WebhookOptions, webhookHandler, webhookServer } from './server.ts';

const WORLD: AdmissionWorld = {
  objects: NO_OBJECTS,
  failsafe: DEFAULT_CONFIG.failsafe,
  believesAnyServer: false,
  interfaceGroups: [],
};

interface Answer {
  readonly status: number;
  readonly body: string;
}

function reviewOf(spec: object, uid = 'u'): string {
  const object = {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'p' },
    spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ...spec },
  };
  const request = { uid, operation: 'CREATE', object, oldObject: null };
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request });
}

describe('webhookHandler', () => {
  let server: Server;
  let options: WebhookOptions;
  let failures: string[];
  beforeEach(async () => {
    failures = [];
    options = {
      stepOf: plainStep,
      admit: async ({ body, step, world }) => admitBody(Buffer.concat(body), step, world),
      world: () => WORLD,
      changed: async () => {},
      latest: async () => null,
      onFailure: ({ message }) => failures.push(message),
    };
    const handler = webhookHandler({
      stepOf: (path) => options.stepOf(path),
      admit: (request) => options.admit(request),
      world: () => options.world(),
      changed: (milliseconds) => options.changed(milliseconds),
      latest: (...asked) => options.latest(...asked),
      get deletions() {
        return options.deletions;
      },
      onFailure: (error) => options.onFailure(error),
    });
    server = createServer(handler).listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  async function post(
    path: string,
    body: string | Buffer,
    more: { method?: string; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const { port } = server.address() as AddressInfo;
    const headers = { 'content-type': 'application/json', ...more.headers };
    const outgoing = send({ host: '127.0.0.1', port, path, method: more.method ?? 'POST', headers });
    // The server may close the connection before everything was sent.
    outgoing.on('error', () => {});
    outgoing.end(body);
    const [response] = await once(outgoing, 'response');
    return { status: response.statusCode, body: await text(response) };
  }

  it('patches at /mutate, with the uid of the request', async () => {
    const { status, body } = await post(
      '/mutate?timeout=5s',
      reviewOf({ ingress: [{ action: 'Allow' }] }, 'id'),
    );
    assert.equal(status, 200);
    const { response, ...others } = JSON.parse(body);
    assert.deepEqual(others, { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' });
    assert.deepEqual([response.uid, response.allowed, response.patchType], ['id', true, 'JSONPatch']);
    const patch = JSON.parse(Buffer.from(response.patch, 'base64').toString());
    assert.deepEqual(
      patch.map(({ path }: { path: string }) => path),
      ['/spec/tier', '/spec/ingress/0/name'],
    );
  });

  it('rejects and warns at /validate', async () => {
    const refused = JSON.parse((await post('/validate', reviewOf({ priority: 0 }))).body).response;
    assert.equal(refused.allowed, false);
    assert.deepEqual([refused.status.code, refused.status.reason], [422, 'Invalid']);
    assert.match(refused.status.message, /^ClusterNetworkPolicy\/p: spec\.priority: must be/);
    const rules = Array.from({ length: 39 }, () => ({
      action: 'Allow',
      toServices: [{ name: 'none', namespace: 'n' }],
    }));
    const warned = JSON.parse((await post('/validate', reviewOf({ egress: rules }))).body).response;
    assert.equal(warned.allowed, true);
    assert.equal(warned.warnings.length, 15);
    assert.match(warned.warnings.at(-1), /^and 25 more warnings/);
    const total = warned.warnings.reduce((sum: number, text: string) => sum + text.length, 0);
    assert.ok(total < 4096 && warned.warnings.every((text: string) => text.length <= 256));
  });

  it('waits for a Tier that arrives shortly after the policy', async () => {
    const tier: Tier = { kind: 'Tier', apiGroup: 'nodewall.io', name: 'mine', priority: 3 };
    let world = WORLD;
    const waits: number[] = [];
    options = {
      ...options,
      world: () => world,
      latest: async () => ({ ...WORLD, objects: { ...NO_OBJECTS, tiers: [tier] } }),
      changed: async (milliseconds) => {
        waits.push(milliseconds);
        world = { ...world, objects: { ...NO_OBJECTS, tiers: waits.length === 2 ? [tier] : [] } };
      },
    };
    const { response } = JSON.parse((await post('/validate', reviewOf({ tier: 'mine' }))).body);
    assert.equal(response.allowed, true);
    assert.equal(waits.length, 2);
    assert.ok(waits.every((wait) => wait > 0 && wait <= 1000));
  });

  it('does not wait if the object itself is invalid, nor longer than the limit', async () => {
    let waits = 0;
    options = {
      ...options,
      changed: async () => {
        waits++;
      },
    };
    await post('/validate', reviewOf({ priority: 0, tier: 'mine' }));
    // The API server does not have it, either.
    const { response } = JSON.parse((await post('/validate', reviewOf({ tier: 'mine' }))).body);
    assert.deepEqual([response.allowed, response.warnings.length], [true, 1]);
    assert.equal(waits, 0);
    const tier: Tier = { kind: 'Tier', apiGroup: 'nodewall.io', name: 'mine', priority: 3 };
    options = {
      ...options,
      latest: async () => ({ ...WORLD, objects: { ...NO_OBJECTS, tiers: [tier] } }),
    };
    const there = JSON.parse((await post('/validate', reviewOf({ tier: 'mine' }))).body).response;
    assert.deepEqual([there.allowed, there.warnings], [true, undefined]);
    assert.equal(waits, 1);
  });

  it('rejects invalid reviews with an HTTP status', async () => {
    const good = reviewOf({});
    const statuses = await Promise.all([
      post('/', good),
      post('/constructor', good),
      post('/validate', '', { method: 'GET' }),
      post('/validate', good, { headers: { 'content-type': 'text/plain' } }),
      post('/validate', '{'),
      post('/validate', '{}'),
      post('/validate', good.replace('admission.k8s.io/v1', 'admission.k8s.io/v1beta1')),
      post('/validate', good.replace('CREATE', 'CONNECT')),
      post('/validate', good.replace('"u"', '""')),
    ]);
    assert.deepEqual(
      statuses.map(({ status }) => status),
      [404, 404, 405, 415, 400, 400, 400, 400, 400],
    );
    assert.deepEqual(failures, []);
  });

  it('reads at most 8 MiB, with or without content-length', async () => {
    const body = Buffer.alloc(8 * 1024 * 1024 + 1, 32);
    const said = await post('/validate', 'x', { headers: { 'content-length': String(body.length) } });
    assert.equal(said.status, 413);
    assert.equal(
      (await post('/validate', body, { headers: { 'transfer-encoding': 'chunked' } })).status,
      413,
    );
  });

  it('reads at most 64 MiB at the same time, and releases the room', async () => {
    const { port } = server.address() as AddressInfo;
    // As much is left of each body as its last chunk may be counted for.
    const body = Buffer.alloc(8 * 1024 * 1024 - 64 * 1024, 32);
    const sockets: Socket[] = [];
    server.on('connection', (socket) => sockets.push(socket));
    const held = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const request = send({ port, path: '/validate', method: 'POST', host: '127.0.0.1' });
        request.setHeader('content-type', 'application/json');
        request.setHeader('content-length', body.length + 1);
        request.on('error', () => {});
        await new Promise((resolve) => request.write(body, resolve));
        return request;
      }),
    );
    // A body that the server has not read yet would be the one to be refused.
    const read = () => sockets.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
    while (read() < held.length * body.length) await immediate();
    const refused = await post('/validate', ' '.repeat(1024 * 1024));
    assert.deepEqual(refused, { status: 503, body: 'too many requests\n' });
    for (const request of held) {
      request.end(' ');
      const [response] = (await once(request, 'response')) as [{ statusCode: number; resume(): void }];
      assert.equal(response.statusCode, 400);
      response.resume();
    }
    assert.equal((await post('/validate', reviewOf({}))).status, 200);
  });

  it('counts what small chunks need beside their bytes', async () => {
    const { port } = server.address() as AddressInfo;
    const head = 'POST /validate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n';
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    socket.write(`${head}transfer-encoding: chunked\r\n\r\n${'1\r\n \r\n'.repeat(70_000)}`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(String(answer), /^HTTP\/1\.1 503 /);
    socket.destroy();
  });

  it('answers 500 without details, and calls onFailure', async () => {
    options = {
      ...options,
      world: () => {
        throw new Error('secret');
      },
    };
    assert.deepEqual(await post('/validate', reviewOf({})), { status: 500, body: 'internal error\n' });
    assert.deepEqual(failures, ['secret']);
  });

  it('allows a deletion of what is in use once its last definition is kept, by all events so far', async () => {
    const spec = { priority: 20 };
    const oldObject = {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'Tier',
      metadata: { name: 't', uid: 'u' },
      spec,
    };
    const deletion = (isDryRun = false): string =>
      JSON.stringify({
        apiVersion: 'admission.k8s.io/v1',
        kind: 'AdmissionReview',
        request: { uid: 'u', operation: 'DELETE', object: null, oldObject, dryRun: isDryRun },
      });
    const tier: Tier = { kind: 'Tier', apiGroup: 'nodewall.io', name: 't', priority: 20 };
    const user: ClusterNetworkPolicy = {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name: 'p',
      uid: 'v',
      generation: 1,
      spec: { priority: 1, tier: 't', appliedTo: [{ nodeSelector: {} }] },
    };
    const world = { ...WORLD, objects: { ...NO_OBJECTS, tiers: [tier], policies: [user] } };
    let isFresh = true;
    let reason: string | null = null;
    const kept: string[] = [];
    options = {
      ...options,
      world: () => world,
      deletions: {
        fresh: async () => isFresh,
        async keep({ name, users }) {
          kept.push(`${name} for ${users.map((one) => one.name).join()}`);
          return reason;
        },
      },
    };
    const answerTo = async (body: string): Promise<{ allowed: boolean; status?: { message: string } }> =>
      JSON.parse((await post('/validate', body)).body).response;
    assert.equal((await answerTo(deletion())).allowed, true);
    assert.deepEqual(kept.splice(0), ['t for p']);
    assert.equal((await answerTo(deletion(true))).allowed, true);
    assert.deepEqual(kept, []);
    reason = 'has no room';
    assert.equal((await answerTo(deletion())).status?.message, 'Tier/t: has no room');
    isFresh = false;
    kept.length = 0;
    assert.match((await answerTo(deletion())).status?.message ?? '', /does not know what uses it/);
    assert.deepEqual(kept, []);
    // The world of now is being compiled, which takes long.
    const slow = { keep: async () => null, fresh: () => new Promise<boolean>(() => {}) };
    options = { ...options, deletions: slow };
    assert.match((await answerTo(deletion())).status?.message ?? '', /does not know what uses it/);
    let left = 0;
    const keep = async (_: unknown, milliseconds: number) => {
      left = milliseconds;
      return null;
    };
    options = { ...options, deletions: { keep, fresh: () => sleep(1_000, true) } };
    assert.equal((await answerTo(deletion())).allowed, true);
    assert.ok(left > 0 && left <= 3_500, `${left} ms are left`);
    const { deletions: _, ...without } = options;
    options = without;
    assert.equal((await answerTo(deletion())).status?.message, 'Tier/t: is in use');
  });
});

describe('webhookServer', () => {
  let server: Server;
  let port: number;
  let asked: string[];
  before(async () => {
    const { certificate: cert, key } = await (await createAuthority('a CA')).issue({
      commonName: 'localhost',
      usage: 'server',
    });
    asked = [];
    server = webhookServer(
      { cert, key },
      {
        stepOf: (path) => (path === '/validate/secret' ? 'validate' : null),
        admit: async ({ body, step, world }) => {
          asked.push(step);
          return admitBody(Buffer.concat(body), step, world);
        },
        world: () => WORLD,
        changed: async () => {},
        latest: async () => null,
        onFailure: () => {},
      },
    ).listen(0, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const tls = { host: '127.0.0.1', rejectUnauthorized: false } as const;

  it('rejects a request whose head is longer than 8 KiB', async () => {
    const statusOf = async (length: number): Promise<number> => {
      const headers = { 'x-long': 'x'.repeat(length) };
      const outgoing = sendTls({ ...tls, port, headers, agent: false }).end();
      const [response] = await once(outgoing, 'response');
      response.resume();
      return response.statusCode;
    };
    assert.equal(await statusOf(7000), 404);
    assert.equal(await statusOf(9000), 431);
  });

  /** The answer to a request whose body never comes, with what ends the connection. */
  async function withoutBody(path: string): Promise<string> {
    const socket = connectTls({ ...tls, port }).on('error', () => {});
    const head = `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n`;
    socket.write(head);
    return await text(socket);
  }

  it('answers 404 to whoever lacks the path, before a body was sent, and ends the connection', async () => {
    asked = [];
    const answers = await Promise.all(
      ['/validate', '/mutate', '/use', '/', '/validate/secret/', '/validate/Secret'].map(withoutBody),
    );
    for (const answer of answers) {
      assert.match(answer, /^HTTP\/1\.1 404 /);
      assert.match(answer, /\r\n\r\n(a\r\n)?not found\n/);
    }
    assert.deepEqual(asked, []);
  });

  it('keeps the API server’s connection, however many others are opened from its address', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const review = async (): Promise<string> => {
      const headers = { 'content-type': 'application/json' };
      const outgoing = sendTls({
        ...tls,
        port,
        agent,
        method: 'POST',
        path: '/validate/secret?timeout=5s',
        headers,
      });
      outgoing.end(reviewOf({}));
      const [response] = await once(outgoing, 'response');
      assert.match(await text(response), /"allowed":true/);
      return `${outgoing.reusedSocket}`;
    };
    assert.equal(await review(), 'false');
    const others = Array.from({ length: 80 }, () => connectTls({ ...tls, port }).on('error', () => {}));
    await Promise.all(
      others.map((one) => new Promise((done) => one.once('secureConnect', done).once('close', done))),
    );
    assert.equal(await review(), 'true');
    for (const one of others) one.destroy();
    agent.destroy();
  });
});
