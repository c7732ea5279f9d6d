import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { text } from 'node:stream/consumers';
import { connect, type TLSSocket } from 'node:tls';
import type { Compiled } from '../../apis/compiled.ts';
import {
  CONTROLLER_STATE_PATH,
  CONTROLLERS_PATH,
  type ControllerList,
  type ControllerState,
} from '../../apis/controller-state.ts';
import { MOST_HELD } from '../../apis/held-view.ts';
import { PROBES_PATH } from '../../apis/inward-probe.ts';
import {
  type Answered,
  answerPath,
  MOST_ANSWER,
  NODE_QUESTIONS_PATH,
  nodeDataPath,
} from '../../apis/node-question.ts';
import { type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { ALL_NODES_PATH, nodeMetricsPath } from '../../apis/scrape-path.ts';
import { CONTROL_PLANE, NODE_VIEWS_PATH, type NodeReport, type StreamMessage } from '../../apis/stream.ts';
import { type Authority, type Certificate, createAuthority } from '../../test/cluster/certificates.ts';
import { compile, compiler } from '../compile/compile.ts';
import { type Authorise, firstOf, frontProxyAuthenticator, type Identity } from './auth.ts';
import { type Failure, failure } from './failure.ts';
import { Hub } from './hub.ts';
import { LEASES_PATH } from './lease-batch.ts';
import { NodeReports } from './node-reports.ts';
import { REPORTS_PATH } from './report-batch.ts';
import { AGENTS, type ControlPlaneOptions, type ControlPlaneServer, controlPlaneServer } from './server.ts';
import type { ServerEvent } from './server-event.ts';

const METRICS = { about: 'metrics', query: '' } as const;
const JSON_TYPE = { 'content-type': 'application/json' };
const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

/** Two states that differ in a set of 30,000 addresses: it is sent whole, 400 kB. */
function wholeSets(): readonly Compiled[] {
  const next = compiler();
  return [1, 2].map((second) => next(objects(30_000, second)));
}

function objects(pods: number, second = 0): ClusterObjects {
  const labels = { app: 'web' };
  return {
    ...NO_OBJECTS,
    nodes: ['cp-1', 'cp-2'].map((name, i) => {
      return { kind: 'Node', name, labels: { name }, addresses: [`192.0.2.${i}`] };
    }),
    namespaces: [{ kind: 'Namespace', name: 'shop', labels: {} }],
    pods: Array.from({ length: pods }, (_, i) => ({
      kind: 'Pod',
      namespace: 'shop',
      name: `p${i}`,
      labels,
      serviceAccount: 'default',
      addresses: [`10.${second}.${i >> 8}.${i & 255}`],
    })),
    policies: [
      {
        kind: 'ClusterNetworkPolicy',
        apiGroup: 'nodewall.io',
        name: 'p',
        uid: '',
        generation: 1,
        spec: {
          priority: 5,
          appliedTo: [{ nodeSelector: { matchLabels: { name: 'cp-1' } } }],
          ingress: [{ name: 'r', action: 'Drop', from: [{ podSelector: { matchLabels: labels } }] }],
        },
      },
    ],
  };
}

const REPORT: NodeReport = {
  node: 'cp-1',
  revision: 'e.1',
  enforced: 'e.1',
  enabled: true,
  failing: [],
  policies: 1,
  hostAddresses: ['192.0.2.0'],
  version: '0.1.0',
  dataplane: 'nftables',
  time: '1970-01-01T00:00:00.000Z',
};

/** Tokens describe their identity: `agent NODE`, `user NAME`, with dots for blanks. */
function identityOf(token: string, expires: number | null): Identity | null {
  const [kind, name = ''] = token.split('.');
  const base = { uid: '', groups: [], extra: {}, expires };
  if (kind === 'user') return { ...base, username: name };
  if (kind !== 'agent') return null;
  const extra: Record<string, string[]> =
    name === '' ? {} : { 'authentication.kubernetes.io/node-name': [name] };
  return { ...base, username: AGENTS, extra };
}

interface Running {
  readonly server: ControlPlaneServer;
  readonly hub: Hub;
  readonly port: number;
  readonly reports: NodeReport[];
  readonly events: ServerEvent[];
  readonly asked: Parameters<Authorise>[1][];
  /** Advances the time second by second, with a check of all watches after each. */
  pass(seconds: number): void;
  /** The state of identities from now on. */
  revoked: boolean;
  unavailable: boolean;
  expires: number | null;
  /** Milliseconds that the wall clock is ahead of the other one. */
  ahead: number;
}

describe('controlPlaneServer', () => {
  let authority: Authority;
  let serving: Certificate;
  let proxies: Authority;
  const open: Running[] = [];
  const sockets: { destroy(): void }[] = [];

  before(async () => {
    [authority, proxies] = [await createAuthority('servers'), await createAuthority('front proxies')];
    serving = await authority.issue({ commonName: 'controller', names: ['localhost'], usage: 'server' });
  });

  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await Promise.all(open.splice(0).map(({ server }) => server.close()));
  });

  async function start(options: Partial<ControlPlaneOptions> = {}, isReady = true): Promise<Running> {
    const hub = new Hub({ gate: true, epoch: 'e' });
    if (isReady) hub.publish(compile(objects(2)));
    let now = 0;
    const looks: (() => void)[] = [];
    const reports: NodeReport[] = [];
    const events: ServerEvent[] = [];
    const asked: Running['asked'] = [];
    const proxy = frontProxyAuthenticator(() => ({
      allowedNames: ['front-proxy-client'],
      usernameHeaders: ['X-Remote-User'],
      uidHeaders: [],
      groupHeaders: ['X-Remote-Group'],
      extraHeaderPrefixes: ['X-Remote-Extra-'],
    }));
    const server = controlPlaneServer({
      hub,
      authenticate: firstOf(proxy, async ({ headers: { authorization = '' } }) => {
        if (running.unavailable) throw new Error('the API server is away');
        return running.revoked ? null : identityOf(authorization.replace('Bearer ', ''), running.expires);
      }),
      async authorise({ username }, access) {
        if (running.unavailable) throw new Error('the API server is away');
        asked.push(access);
        return { allowed: username !== 'mallory', reason: username === 'mallory' ? 'no role' : '' };
      },
      onReport: (report) => reports.push(report),
      reports: new NodeReports(() => now),
      authenticatePeer: async ({ headers: { authorization } }) =>
        authorization === 'Bearer controller' ? identityOf('user.controller', null) : null,
      onEvent: (event) => events.push(event),
      tls: { key: serving.key, cert: serving.certificate, clientCa: proxies.certificate },
      now: () => now,
      date: () => now + running.ahead,
      ...options,
      streams: {
        random: () => 0.5,
        every(_, callback) {
          looks.push(callback);
          return () => {};
        },
        ...options.streams,
      },
    });
    const { port } = await server.listen(0, 'localhost');
    const running: Running = {
      server,
      hub,
      port,
      reports,
      events,
      asked,
      pass(seconds) {
        for (let i = 0; i < seconds; i++) {
          now += 1000;
          for (const look of looks) look();
        }
      },
      revoked: false,
      unavailable: false,
      expires: null,
      ahead: 0,
    };
    open.push(running);
    return running;
  }

  async function send(
    { port }: Running,
    path: string,
    token: string,
    options: RequestOptions & { body?: string | Buffer; endless?: boolean } = {},
  ): Promise<IncomingMessage> {
    const { body, endless = false, ...others } = options;
    const request = httpsRequest({
      host: 'localhost',
      port,
      path,
      ca: authority.certificate,
      agent: false,
      ...others,
      headers: { ...(token === '' ? {} : { authorization: `Bearer ${token}` }), ...options.headers },
    });
    sockets.push(request);
    // If the server has closed the connection already, its response can still be read.
    request.on('error', () => {});
    if (endless) request.write(body);
    else request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => {});
    return response;
  }

  async function ask(
    ...args: Parameters<typeof send>
  ): Promise<{ code: number; body: unknown; message: IncomingMessage }> {
    const message = await send(...args);
    const body = await text(message);
    return { code: message.statusCode ?? 0, body: body === '' ? null : JSON.parse(body), message };
  }

  /** Reads lines as they arrive. */
  async function watch(running: Running, token: string, query = '', node = 'cp-1') {
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3D${node}${query}`;
    const response = await send(running, path, token);
    assert.equal(response.statusCode, 200);
    const messages = linesOf(response);
    const batch = async (): Promise<StreamMessage[]> => {
      const batch: StreamMessage[] = [];
      for (;;) {
        const { value, done } = await messages.next();
        if (done === true) return batch;
        batch.push(value);
        if (value.type === 'bookmark') return batch;
      }
    };
    return { response, batch };
  }

  async function* linesOf(response: IncomingMessage): AsyncGenerator<StreamMessage, undefined> {
    let rest = '';
    for await (const part of response) {
      const lines = (rest + String(part)).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) yield JSON.parse(line) as StreamMessage;
    }
    assert.equal(rest, '');
    return undefined;
  }

  const types = (batch: readonly StreamMessage[]) => batch.map(({ type }) => type);

  it('streams the view, then the changes, with sequence numbers', async () => {
    const running = await start();
    const { response, batch } = await watch(running, 'agent.cp-1');
    assert.equal(response.headers['content-type'], 'application/json');
    const view = await batch();
    assert.deepEqual(types(view), [
      'reset',
      'gate',
      'node',
      'addressSet',
      'addressSet',
      'addressSet',
      'rules',
      'bookmark',
    ]);
    running.hub.setGate(false);
    const change = await batch();
    assert.deepEqual(types(change), ['gate', 'bookmark']);
    assert.deepEqual(
      [...view, ...change].map(({ sequence }) => sequence),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    );
    assert.equal(change[1]?.revision, running.hub.revision);
  });

  it('resumes a watch', async () => {
    const running = await start();
    const { revision } = running.hub;
    running.hub.setGate(false);
    const { batch } = await watch(
      running,
      'agent.cp-1',
      `&resourceVersion=${revision}&allowWatchBookmarks=true`,
    );
    assert.deepEqual(types(await batch()), ['gate', 'bookmark']);
    const other = await watch(running, 'agent.cp-1', '&resourceVersion=other.1');
    assert.equal((await other.batch())[0]?.type, 'reset');
  });

  it('sends the differences from the view that an agent holds of another controller', async () => {
    const running = await start();
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3Dcp-1&resourceVersion=other.1`;
    const post = (body: string, token = 'agent.cp-1', headers: OutgoingHttpHeaders = JSON_TYPE, to = path) =>
      send(running, to, token, { method: 'POST', body, headers });
    const empty = { addressSets: {}, serviceSets: {}, rules: {} };
    const held = { ...empty, addressSets: { old: '0' }, rules: { 'nodewall.io/old/r': '0' } };
    const response = await post(JSON.stringify(held));
    assert.equal(response.statusCode, 200);
    const batch: StreamMessage[] = [];
    for await (const message of linesOf(response)) {
      batch.push(message);
      if (message.type === 'bookmark') break;
    }
    assert.deepEqual(types(batch), [
      ...['gate', 'endpoints', 'node', 'addressSet', 'addressSet', 'addressSet', 'rules'],
      ...['rulesRemoved', 'addressSetRemoved', 'bookmark'],
    ]);
    // Where the revision is enough, the view is not read.
    const known = path.replace('other.1', running.hub.revision);
    const resumed = await post('{', 'agent.cp-1', { ...JSON_TYPE, 'content-length': '1' }, known);
    assert.equal(resumed.statusCode, 200);
    const codes = [
      [await post('{"addressSets":{}}'), 422],
      [await post('null'), 422],
      [await post('{'), 400],
      [await post(`"${'x'.repeat(MOST_HELD)}"`), 413],
      [await post('{}', 'agent.cp-1', { 'content-type': 'text/plain' }), 415],
      [await post(JSON.stringify(empty), 'agent.cp-2'), 403],
    ] as const;
    for (const [{ statusCode }, code] of codes) assert.equal(statusCode, code);
    const list = await ask(running, NODE_VIEWS_PATH, 'agent.cp-1', { method: 'POST', body: '{}' });
    assert.equal(list.code, 405);
  });

  it('serves an agent of another controller only when it has seen as much', async () => {
    let reached = 4;
    const hub = new Hub({ gate: true, epoch: 'e', watches: () => [{ newest: 3, reached }] });
    hub.publish(compile(objects(2)));
    const running = await start({ hub, limits: { catchUp: 100 } });
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3Dcp-1&resourceVersion=other.1.5`;
    const late = await ask(running, path, 'agent.cp-1');
    assert.equal(late.code, 503);
    assert.equal(late.message.headers['retry-after'], '1');
    assert.equal((await send(running, `${path}&anyPosition=true`, 'agent.cp-1')).statusCode, 200);
    const waiting = send(running, path, 'agent.cp-1');
    reached = 5;
    assert.equal((await waiting).statusCode, 200);
  });

  it('sends nothing for a deleted Node, so that it keeps its rules, and resumes when it exists again', async () => {
    const running = await start();
    const compile = compiler();
    const all = objects(2);
    running.hub.publish(compile(all));
    const { response, batch } = await watch(running, 'agent.cp-1');
    const { revision } = (await batch()).at(-1) ?? assert.fail();
    running.hub.publish(compile({ ...all, nodes: all.nodes.filter(({ name }) => name !== 'cp-1') }));
    assert.deepEqual(await batch(), []);
    assert.equal(response.complete, true);
    assert.equal(running.hub.watchers, 0);
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3Dcp-1&resourceVersion=${revision}`;
    const { code, body } = await ask(running, path, 'agent.cp-1');
    assert.equal(code, 404);
    assert.match(JSON.stringify(body), /there is no Node cp-1/);
    running.hub.publish(compile(all));
    const again = await watch(running, 'agent.cp-1', `&resourceVersion=${revision}`);
    const back = (await again.batch()).at(-1);
    assert.equal(back?.type === 'bookmark' && back.rules, 1);
  });

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

  it('accepts ten reports at once, then one a second', async () => {
    const running = await start();
    const put = { method: 'PUT', headers: { 'content-type': 'application/json; charset=utf-8' } };
    const body = JSON.stringify(REPORT);
    const path = `${NODE_VIEWS_PATH}/cp-1/status`;
    for (let i = 0; i < 10; i++) {
      const { code, body: nothing } = await ask(running, path, 'agent.cp-1', { ...put, body });
      assert.deepEqual([code, nothing], [204, null]);
    }
    const { code, message } = await ask(running, path, 'agent.cp-1', { ...put, body });
    assert.deepEqual([code, message.headers['retry-after']], [429, '1']);
    running.pass(1);
    assert.equal((await ask(running, path, 'agent.cp-1', { ...put, body })).code, 204);
    assert.equal(running.reports.length, 11);
    assert.deepEqual(running.reports[0], REPORT);
    // The time is that of the controller's clock.
    assert.deepEqual(running.reports.at(-1), { ...REPORT, time: '1970-01-01T00:00:01.000Z' });
  });

  it('shows views as objects, as a list and as a Table', async () => {
    const running = await start();
    const put = {
      method: 'PUT',
      headers: JSON_TYPE,
      body: JSON.stringify(REPORT),
    };
    await ask(running, `${NODE_VIEWS_PATH}/cp-1/status`, 'agent.cp-1', put);
    const counts = { rules: 1, addressSets: 3, serviceSets: 0 };
    const list = (await ask(running, NODE_VIEWS_PATH, 'user.a')).body as { items: { metadata: object }[] };
    const metadata = (name: string) => ({ name, resourceVersion: 'e.1' });
    assert.deepEqual(list.items, [
      {
        kind: 'NodeView',
        apiVersion: 'controlplane.nodewall.io/v1alpha1',
        metadata: metadata('cp-1'),
        counts,
        status: REPORT,
      },
      {
        kind: 'NodeView',
        apiVersion: 'controlplane.nodewall.io/v1alpha1',
        metadata: metadata('cp-2'),
        counts: { rules: 0, addressSets: 2, serviceSets: 0 },
      },
    ]);
    const { body: one } = await ask(running, `${NODE_VIEWS_PATH}/cp-1`, 'user.a');
    const { view } = one as { view: { rules: { source: object }[]; addressSets: { members: string[] }[] } };
    assert.equal(view.rules.length, 1);
    assert.ok(view.addressSets.some(({ members }) => members.join() === '10.0.0.0,10.0.0.1'));
    const headers = { accept: TABLE };
    running.pass(61);
    const { body: table } = await ask(running, NODE_VIEWS_PATH, 'user.a', { headers });
    const { kind, rows, columnDefinitions } = table as {
      kind: string;
      rows: { cells: unknown[] }[];
      columnDefinitions: object[];
    };
    assert.equal(kind, 'Table');
    assert.deepEqual(
      rows.map(({ cells }) => cells),
      [
        ['cp-1', 1, 3, 'Enforced', 0, '61s', '0.1.0', 'e.1'],
        ['cp-2', 0, 2, 'Unknown', 0, '<none>', '<none>', '<none>'],
      ],
    );
    assert.equal(columnDefinitions.length, rows[0]?.cells.length);
    const { body: single } = await ask(running, `${NODE_VIEWS_PATH}/cp-2`, 'user.a', { headers });
    assert.equal((single as typeof table & { rows: object[] }).rows.length, 1);
    const filtered = `${NODE_VIEWS_PATH}?fieldSelector=metadata.name%3Dcp-2&limit=500`;
    const { body: some } = await ask(running, filtered, 'user.a');
    assert.equal((some as { items: object[] }).items.length, 1);
  });

  it('refuses agents, and nobody else, while it has no reports of other controllers yet', async () => {
    let refusal: Failure | null = failure('ServiceUnavailable', 'not yet', { 'retry-after': '1' });
    const running = await start({ refusesAgents: () => refusal });
    const put = {
      method: 'PUT',
      headers: JSON_TYPE,
      body: JSON.stringify(REPORT),
    };
    const WATCH = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3Dcp-1`;
    // The authenticator is not called.
    running.unavailable = true;
    for (const [path, options] of [
      [WATCH, {}],
      [`${NODE_VIEWS_PATH}/cp-1/status`, put],
    ] as const) {
      const { code, message } = await ask(running, path, 'agent.cp-1', options);
      assert.deepEqual([code, message.headers['retry-after']], [503, '1']);
    }
    running.unavailable = false;
    assert.equal((await ask(running, '/apis', 'user.a')).code, 200);
    assert.equal((await ask(running, `${NODE_VIEWS_PATH}/cp-1`, 'user.a')).code, 200);
    refusal = null;
    assert.equal((await ask(running, `${NODE_VIEWS_PATH}/cp-1/status`, 'agent.cp-1', put)).code, 204);
  });

  it('takes reports of other controllers, gives them all, and keeps the later one', async () => {
    const running = await start();
    const headers = JSON_TYPE;
    const post = (body: unknown, token = 'controller') =>
      ask(running, REPORTS_PATH, token, { method: 'POST', headers, body: JSON.stringify(body) });
    const of = (node: string, more: object = {}) => ({ ...REPORT, node, ...more });
    assert.equal((await post({ reports: [] }, 'agent.cp-1')).code, 401);
    assert.equal((await ask(running, REPORTS_PATH, 'user.a')).code, 401);
    const bad = [null, {}, { reports: [{}] }, { reports: [{ report: REPORT, age: -1 }] }];
    for (const body of bad) assert.equal((await post(body)).code, 422, JSON.stringify(body));
    running.pass(60);
    const put = { method: 'PUT', headers, body: JSON.stringify(REPORT) };
    await ask(running, `${NODE_VIEWS_PATH}/cp-1/status`, 'agent.cp-1', put);
    const reports = [
      { report: of('cp-1', { version: '0.0.9' }), age: 1000 },
      { report: of('cp-2'), age: 2000 },
    ];
    assert.equal((await post({ reports })).code, 200);
    assert.deepEqual(
      running.reports.map(({ node, version }) => [node, version]),
      [
        ['cp-1', REPORT.version],
        ['cp-2', REPORT.version],
      ],
    );
    const { body } = await ask(running, REPORTS_PATH, 'controller');
    assert.deepEqual(
      (body as { reports: { report: NodeReport; age: number }[] }).reports.map(({ report, age }) => [
        report.node,
        age,
      ]),
      [
        ['cp-1', 0],
        ['cp-2', 2000],
      ],
    );
  });

  it('takes heartbeats of an agent for its own node, and those that controllers pass on', async () => {
    const heartbeat = (node: string) => ({ node, boot: 'b', sent: 1, held: [], ready: [] });
    const grants = [{ gateway: 'g', slot: '0', epoch: 1, addresses: ['198.51.100.1'], milliseconds: 2000 }];
    let leads = true;
    const takeAsLeader = () => (leads ? { grants } : null);
    const running = await start({ leases: { take: async () => takeAsLeader(), takeAsLeader } });
    const post = (path: string, token: string, body: unknown, to = running) =>
      ask(to, path, token, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
    const beat = (node: string, token: string, body: unknown, to = running) =>
      post(`${NODE_VIEWS_PATH}/${node}/lease`, token, body, to);
    assert.deepEqual((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'))).body, { grants });
    assert.equal((await beat('cp-2', 'agent.cp-1', heartbeat('cp-2'))).code, 403);
    assert.equal((await beat('cp-1', 'agent', heartbeat('cp-1'))).code, 403);
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-2'))).code, 422);
    assert.equal((await beat('cp-9', 'agent.cp-9', heartbeat('cp-9'))).code, 404);
    assert.equal((await beat('cp-1', 'agent.cp-1', { boot: 'b'.repeat(300_000) })).code, 413);
    assert.equal((await ask(running, `${NODE_VIEWS_PATH}/cp-1/lease`, 'agent.cp-1')).code, 405);
    const batch = { requests: [heartbeat('cp-1'), heartbeat('cp-2')] };
    assert.equal((await post(LEASES_PATH, 'agent.cp-1', batch)).code, 401);
    assert.equal((await post(LEASES_PATH, 'controller', { requests: [{}] })).code, 422);
    assert.deepEqual((await post(LEASES_PATH, 'controller', batch)).body, {
      answers: [{ grants }, { grants }],
    });
    leads = false;
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'))).code, 503);
    assert.deepEqual((await post(LEASES_PATH, 'controller', batch)).body, { answers: [null, null] });
    const codes: (number | undefined)[] = [];
    for (let i = 0; i < 61; i++) codes.push((await beat('cp-2', 'agent.cp-2', heartbeat('cp-2'))).code);
    assert.deepEqual([codes.indexOf(429), codes[0]], [60, 503]);
    const gateOff = await start();
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'), gateOff)).code, 404);
  });

  it('takes questions of an agent for probes to its own node, and answers; controllers pass both on', async () => {
    const results = [{ name: 'ssh', notMade: 'no other agent' }];
    const heard: unknown[] = [];
    const take = async (...of: unknown[]) => {
      heard.push(of);
      return { results };
    };
    const running = await start({
      probes: {
        take,
        takeHere: async (...of) => (await take('here', ...of)).results,
        answered: (...of) => heard.push(of),
        answeredHere: (...of) => heard.push(['here', ...of]),
      },
    });
    const post = (path: string, token: string, body: unknown, to = running) =>
      ask(to, path, token, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
    const of = (node: string, part: string) => `${NODE_VIEWS_PATH}/${node}/${part}`;
    const question = { probes: [{ name: 'ssh' }], milliseconds: 1_000 };
    const answer = { id: '1', error: null, source: '192.0.2.1' };
    assert.deepEqual((await post(of('cp-1', 'probes'), 'agent.cp-1', question)).body, { results });
    assert.equal((await post(of('cp-1', 'probeanswer'), 'agent.cp-1', answer)).code, 204);
    for (const [part, body] of [
      ['probes', question],
      ['probeanswer', answer],
    ] as const) {
      assert.equal((await post(of('cp-2', part), 'agent.cp-1', body)).code, 403);
      assert.equal((await post(of('cp-1', part), 'agent.cp-1', {})).code, 422);
      assert.equal((await post(of('cp-1', part), 'agent.cp-1', { id: 'x'.repeat(20_000) })).code, 413);
      assert.equal((await ask(running, of('cp-1', part), 'agent.cp-1')).code, 405);
    }
    assert.equal((await post(PROBES_PATH, 'agent.cp-1', { kind: 'answer' })).code, 401);
    assert.equal((await post(PROBES_PATH, 'controller', { kind: 'question' })).code, 422);
    const passed = { kind: 'question', node: 'cp-2', ...question };
    assert.deepEqual((await post(PROBES_PATH, 'controller', passed)).body, { results });
    await post(PROBES_PATH, 'controller', { kind: 'answer', prober: 'cp-2', answer });
    assert.deepEqual(heard, [
      ...[
        ['cp-1', question],
        ['cp-1', answer],
      ],
      ...[
        ['here', 'cp-2', question],
        ['here', 'cp-2', answer],
      ],
    ]);
    const codes: (number | undefined)[] = [];
    for (let i = 0; i < 11; i++) codes.push((await post(of('cp-2', 'probes'), 'agent.cp-2', question)).code);
    assert.deepEqual([codes.indexOf(429), codes[0]], [10, 200]);
    const without = await start();
    assert.equal((await post(of('cp-1', 'probes'), 'agent.cp-1', question, without)).code, 404);
  });

  it('asks for probes agents alone that know how to make them', async () => {
    const running = await start();
    const { batch } = await watch(running, 'agent.cp-1', '&features=egress,probes');
    await batch();
    await (await watch(running, 'agent.cp-2', '', 'cp-2')).batch();
    await (await watch(running, 'user.somebody', '&features=probes', 'cp-2')).batch();
    assert.deepEqual(running.server.probers(), ['cp-1']);
    const target = { kind: 'tcp', address: '192.0.2.1', port: 22 } as const;
    const update = { type: 'probe', id: '1', target, milliseconds: 1_000 } as const;
    assert.deepEqual(
      ['cp-1', 'cp-2'].map((node) => running.server.sendProbe(node, update)),
      [true, false],
    );
    running.hub.setGate(false);
    const [{ sequence, revision, ...sent } = assert.fail(), ...rest] = await batch();
    assert.deepEqual([sent, types(rest)], [update, ['gate', 'bookmark']]);
    assert.ok(sequence > 1 && revision.startsWith('e.'));
  });

  it('answers scrapers of its own metrics before it serves, and nobody else', async () => {
    let isOpen = false;
    const running = await start({
      isOpen: () => isOpen,
      metrics: {
        authenticate: async ({ headers: { authorization = '' } }) =>
          identityOf(authorization.replace('Bearer ', ''), null),
        contentType: 'text/plain; version=0.0.4',
        text: async () => 'own 1\n',
        allNodes: async () => ({ text: 'all 1\n' }),
      },
    });
    const code = async (path: string, token: string, method = 'GET') => {
      const response = await send(running, path, token, { method });
      await text(response);
      return response.statusCode;
    };
    const others = [
      [ALL_NODES_PATH, 'user.prometheus'],
      [nodeMetricsPath('cp-1'), 'user.prometheus'],
      [NODE_VIEWS_PATH, 'user.kim'],
      [`${NODE_VIEWS_PATH}/cp-1`, 'agent.cp-1'],
      [REPORTS_PATH, 'controller'],
      ['/apis', 'user.kim'],
    ] as const;
    for (const [path, token] of others) assert.equal(await code(path, token), 503, path);
    assert.equal(await code('/metrics', 'user.prometheus'), 200);
    assert.equal(await code('/metrics', 'user.mallory'), 403);
    assert.equal(await code('/metrics', ''), 401);
    isOpen = true;
    for (const [path, token] of others.filter(([path]) => path !== nodeMetricsPath('cp-1')))
      assert.equal(await code(path, token), 200, path);
  });

  it('gives users the state of all controllers, and controllers its own', async () => {
    const own = { name: 'a', version: '0.1.0' } as ControllerState;
    const other = { metadata: { name: '10.0.0.2:8443' }, problem: 'no answer' };
    const running = await start({ controllers: { own: async () => own, others: async () => [other] } });
    const list = await ask(running, CONTROLLERS_PATH, 'user.kim');
    assert.deepEqual(running.asked.splice(0), [
      { group: 'controlplane.nodewall.io', version: 'v1alpha1', verb: 'list', resource: 'controllers' },
    ]);
    assert.deepEqual((list.body as ControllerList).items, [{ metadata: { name: 'a' }, state: own }, other]);
    const refused = await ask(running, CONTROLLERS_PATH, 'user.mallory');
    assert.equal(refused.code, 403);
    assert.match(JSON.stringify(refused.body), /list controllers .*nodewall-view/);
    assert.equal((await ask(running, CONTROLLERS_PATH, 'user.kim', { method: 'POST' })).code, 405);
    assert.deepEqual((await ask(running, CONTROLLER_STATE_PATH, 'controller')).body, own);
    for (const token of ['user.kim', 'agent.cp-1', ''])
      assert.equal((await ask(running, CONTROLLER_STATE_PATH, token)).code, 401, token);
    const silent = await start();
    assert.equal((await ask(silent, CONTROLLERS_PATH, 'user.kim')).code, 404);
  });

  it('gives scrapers what an agent answers; controllers pass both on', async () => {
    const heard: unknown[] = [];
    let isBehind = false;
    const answered = async (...of: unknown[]): Promise<Answered> => {
      heard.push(of);
      return of.includes('cp-1') ? { text: 'a 1\n' } : { problem: 'not connected' };
    };
    const running = await start({
      metrics: {
        authenticate: async ({ headers: { authorization = '' } }) =>
          identityOf(authorization.replace('Bearer ', ''), null),
        contentType: 'text/plain; version=0.0.4',
        text: async () => 'own 1\n',
        allNodes: async () => (isBehind ? { problem: 'reports are missing' } : { text: 'all 1\n' }),
      },
      nodeQuestions: {
        ask: answered,
        askHere: (...of) => answered('here', ...of),
        answered: (...of) => heard.push(of),
        answeredHere: (...of) => heard.push(['here', ...of]),
      },
    });
    const get = async (node: string, token = 'user.prometheus') => {
      const response = await send(running, nodeMetricsPath(node), token);
      return [response.statusCode, response.headers['content-type'], await text(response)];
    };
    assert.deepEqual(await get('cp-1'), [200, 'text/plain; version=0.0.4', 'a 1\n']);
    assert.deepEqual(running.asked.splice(0), [{ verb: 'get', path: '/metrics' }]);
    const all = async (token = 'user.prometheus') => {
      const response = await send(running, ALL_NODES_PATH, token);
      return [response.statusCode, (await text(response)).slice(0, 5)];
    };
    assert.deepEqual(await all(), [200, 'all 1']);
    assert.deepEqual(running.asked.splice(0), [{ verb: 'get', path: '/metrics' }]);
    isBehind = true;
    const codesOfAll = await Promise.all([all(), all('user.mallory'), all('')]);
    assert.deepEqual(
      codesOfAll.map(([code]) => code),
      [503, 403, 401],
    );
    const codes = [get('cp-2'), get('cp-3'), get('a/b'), get('cp-1', 'user.mallory'), get('cp-1', '')];
    assert.deepEqual(
      (await Promise.all(codes)).map(([code]) => code),
      [503, 404, 400, 403, 401],
    );
    const post = (path: string, token: string, body: unknown) =>
      ask(running, path, token, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
    const answer = { id: '1', text: 'a 2\n' };
    const own = answerPath('cp-1');
    assert.equal((await post(own, 'agent.cp-1', answer)).code, 204);
    assert.equal((await post(own, 'agent.cp-2', answer)).code, 403);
    assert.equal((await post(own, 'agent.cp-1', { id: '1' })).code, 422);
    assert.equal((await post(own, 'agent.cp-1', { id: '1', text: 'x'.repeat(MOST_ANSWER) })).code, 413);
    const question = { kind: 'question', node: 'cp-1', about: 'metrics', query: '' };
    assert.equal((await post(NODE_QUESTIONS_PATH, 'agent.cp-1', question)).code, 401);
    assert.deepEqual((await post(NODE_QUESTIONS_PATH, 'controller', question)).body, { text: 'a 1\n' });
    await post(NODE_QUESTIONS_PATH, 'controller', { kind: 'answer', node: 'cp-1', answer });
    assert.equal((await post(NODE_QUESTIONS_PATH, 'controller', { kind: 'answer', node: 'cp-1' })).code, 422);
    assert.deepEqual(heard, [
      ['cp-1', METRICS],
      ['cp-2', METRICS],
      ['cp-1', answer],
      ['here', 'cp-1', METRICS],
      ['here', 'cp-1', answer],
    ]);
    const limited: (number | undefined)[] = [];
    for (let i = 0; i < 33; i++) limited.push((await post(answerPath('cp-2'), 'agent.cp-2', answer)).code);
    assert.deepEqual([limited[0], limited.indexOf(429)], [204, 31]);
  });

  it('gives users what only a node knows, if they may have it', async () => {
    const answers: Answered[] = [];
    const asked: unknown[] = [];
    const running = await start({
      nodeQuestions: {
        async ask(...of) {
          asked.push(of);
          return answers.shift() ?? { problem: 'nothing more' };
        },
        askHere: async () => null,
        answered: () => {},
        answeredHere: () => {},
      },
    });
    const get = (path: string, token = 'user.jane') => ask(running, path, token);
    const path = nodeDataPath('cp-1', 'records');
    answers.push({ text: '{"records":[],"isCut":false}' }, { problem: 'no "x"', isRefused: true });
    assert.deepEqual((await get(`${path}?port=22&lines=5`)).body, { records: [], isCut: false });
    assert.deepEqual(running.asked.splice(0), [
      { verb: 'get', subresource: 'records', name: 'cp-1', resource: 'nodeviews', ...CONTROL_PLANE },
    ]);
    assert.equal((await get(`${path}?port=x`)).code, 400);
    assert.equal((await get(path)).code, 503);
    assert.deepEqual(asked, [
      ['cp-1', { about: 'records', query: 'port=22&lines=5' }],
      ['cp-1', { about: 'records', query: 'port=x' }],
      ['cp-1', { about: 'records', query: '' }],
    ]);
    assert.equal((await get(`${path}?src=${'x'.repeat(4096)}`)).code, 400);
    assert.equal((await get(nodeDataPath('nobody', 'names'))).code, 404);
    const denied = await get(path, 'user.mallory');
    assert.equal(denied.code, 403);
    assert.match(JSON.stringify(denied.body), /may not get nodeviews\/records cp-1/);
  });

  it('asks agents alone that answer', async () => {
    const running = await start();
    const { batch } = await watch(running, 'agent.cp-1', '&features=probes,questions');
    await batch();
    await (await watch(running, 'agent.cp-2', '&features=probes', 'cp-2')).batch();
    await (await watch(running, 'user.somebody', '&features=questions', 'cp-2')).batch();
    const update = { type: 'question', id: '1', ...METRICS } as const;
    assert.deepEqual(
      ['cp-1', 'cp-2'].map((node) => running.server.sendQuestion(node, update)),
      [true, false],
    );
    running.hub.setGate(false);
    const [{ sequence: _, revision: __, ...sent } = assert.fail()] = await batch();
    assert.deepEqual(sent, update);
  });

  it('ends all watches within two minutes when they are spread', async () => {
    const running = await start();
    const { batch } = await watch(running, 'agent.cp-1');
    await batch();
    running.server.spreadStreams();
    running.pass(59);
    assert.equal(running.hub.watchers, 1);
    running.pass(1);
    assert.deepEqual(
      (await batch()).filter(({ type }) => type !== 'bookmark'),
      [],
    );
    assert.equal(running.hub.watchers, 0);
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
    const proxy = await cert(proxies, 'front-proxy-client');
    assert.equal((await ask(running, NODE_VIEWS_PATH, '', proxy)).code, 200);
    for (const other of [
      { headers },
      await cert(proxies, 'kubelet'),
      await cert(strangers, 'front-proxy-client'),
    ])
      assert.equal((await ask(running, NODE_VIEWS_PATH, '', other)).code, 401);
    running.server.setTls({ key: serving.key, cert: serving.certificate });
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

  it('sends bookmarks as keep-alives', async () => {
    const running = await start();
    const { batch } = await watch(running, 'agent.cp-1');
    await batch();
    running.pass(30);
    const [beat, ...more] = await batch();
    assert.deepEqual([beat?.type, beat?.sequence, more], ['bookmark', 9, []]);
  });

  it('keeps watches and reports when the wall clock is stepped a day forward and back', async () => {
    const running = await start();
    const { batch } = await watch(running, 'agent.cp-1');
    await batch();
    for (const ahead of [86_400_000, -86_400_000]) {
      running.ahead = ahead;
      running.pass(30);
      assert.deepEqual(types(await batch()), ['bookmark'], `${ahead}`);
      const { code } = await ask(running, `${NODE_VIEWS_PATH}/cp-1/status`, 'agent.cp-1', {
        method: 'PUT',
        headers: JSON_TYPE,
        body: JSON.stringify(REPORT),
      });
      assert.equal(code, 204);
    }
    assert.equal(running.hub.watchers, 1);
  });

  it('ends a watch when its token expires or is revoked, and at its time limit', async () => {
    const running = await start({ streams: { recheck: 5000 } });
    running.expires = 3000;
    const expiring = await watch(running, 'agent.cp-1');
    running.expires = null;
    const short = await watch(running, 'agent.cp-1', '&timeoutSeconds=2');
    const { batch } = await watch(running, 'agent.cp-1');
    for (const one of [expiring, short]) {
      await one.batch();
      running.pass(3);
      assert.deepEqual(await one.batch(), [], 'the end');
    }
    await batch();
    running.unavailable = true;
    running.pass(10);
    running.unavailable = false;
    running.hub.setGate(false);
    assert.deepEqual(types(await batch()), ['gate', 'bookmark']);
    running.revoked = true;
    running.pass(10);
    assert.deepEqual(await batch(), []);
    assert.equal(running.hub.watchers, 0);
    const ends = running.events.flatMap((event) => (event.kind === 'ended' ? [event.reason] : []));
    assert.deepEqual(ends, [
      'its time limit is reached',
      'its token has expired',
      'its credentials are no longer valid',
    ]);
  });

  it('limits watches in all and of one node, and keeps the newest', async () => {
    const running = await start({ streams: { most: 3, mostOfNode: 2 } });
    const first = await watch(running, 'agent.cp-1');
    await first.batch();
    const second = await watch(running, 'agent.cp-1');
    await second.batch();
    const third = await watch(running, 'agent.cp-1');
    await third.batch();
    assert.deepEqual(await first.batch(), []);
    await (await watch(running, 'agent.cp-2', '', 'cp-2')).batch();
    const { code } = await ask(
      running,
      `${NODE_VIEWS_PATH}?watch=1&fieldSelector=metadata.name=cp-1`,
      'agent.cp-1',
    );
    assert.equal(code, 429);
    running.hub.setGate(false);
    for (const one of [second, third]) assert.deepEqual(types(await one.batch()), ['gate', 'bookmark']);
  });

  it('authorises watches of other clients again after half an hour', async () => {
    // In this test time advances while nothing is read.
    const limits = { unsent: 1e9, slow: 1e9, stalled: 1e9 };
    const running = await start({ streams: { limits } });
    const agent = await watch(running, 'agent.cp-1');
    const others = [
      await watch(running, 'user.curious'),
      await watch(running, 'user.curious', '&timeoutSeconds=9999'),
    ];
    for (const { batch } of [agent, ...others]) await batch();
    running.pass(1799);
    assert.equal(running.hub.watchers, 3);
    running.pass(1);
    assert.equal(running.hub.watchers, 1);
  });

  it("does not end an agent's watch for another user's watch", async () => {
    const running = await start({ streams: { mostOfNode: 2 } });
    const agent = await watch(running, 'agent.cp-1');
    await agent.batch();
    const curious = [];
    for (let i = 0; i < 3; i++) {
      const one = await watch(running, 'user.curious');
      await one.batch();
      curious.push(one);
    }
    assert.deepEqual(await curious[0]?.batch(), []);
    running.hub.setGate(false);
    assert.deepEqual(types(await agent.batch()), ['gate', 'bookmark']);
  });

  it('cuts off a watcher that does not read, and no other', async () => {
    const running = await start({ streams: { limits: { unsent: 4 << 20, slow: 10_000, stalled: 60_000 } } });
    const slow = connect({ host: 'localhost', port: running.port, ca: authority.certificate });
    sockets.push(slow);
    slow.on('error', () => {});
    await once(slow, 'secureConnect');
    slow.write(
      `GET ${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=cp-1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer agent.cp-1\r\n\r\n`,
    );
    await once(slow, 'readable');
    const quick = await watch(running, 'agent.cp-1');
    await quick.batch();
    const states = wholeSets();
    // The kernel buffers some megabytes of them.
    let published = 0;
    while (running.server.stats().unsentBytes < 6 << 20) {
      running.hub.publish(states[published % 2] ?? assert.fail());
      published++;
      await quick.batch();
    }
    running.pass(10);
    assert.equal(running.server.stats().cutOff, 0);
    running.pass(2);
    assert.equal(running.server.stats().cutOff, 1);
    assert.equal(running.hub.watchers, 1);
    assert.equal(running.server.stats().unsentBytes < 1 << 20, true);
    running.hub.setGate(false);
    assert.deepEqual(types(await quick.batch()), ['gate', 'bookmark']);
  });

  it('cuts off a watcher that reads nothing for a minute, however little is queued', async () => {
    const running = await start({ streams: { limits: { unsent: 1 << 30, slow: 10_000, stalled: 60_000 } } });
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=cp-1`;
    const response = await send(running, path, 'agent.cp-1');
    response.pause();
    const states = wholeSets();
    for (let i = 0; running.server.stats().unsentBytes < 1 << 20; i++) {
      running.hub.publish(states[i % 2] ?? assert.fail());
      await new Promise(setImmediate);
    }
    running.pass(61);
    assert.equal(running.hub.watchers, 0);
  });

  it('sends sets of megabytes whole to a late reader', async function () {
    this.timeout(20_000);
    const running = await start();
    running.hub.publish(compile(objects(60_000)));
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=cp-1`;
    const response = await send(running, path, 'agent.cp-1');
    running.hub.setGate(false);
    const seen: StreamMessage[] = [];
    for await (const message of linesOf(response)) {
      seen.push(message);
      if (message.type === 'bookmark' && message.initial === undefined) break;
    }
    assert.deepEqual(
      seen.map(({ sequence }) => sequence),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    );
    assert.ok(seen.some((message) => message.type === 'addressSet' && message.members.length === 60_000));
  });

  it('on close ends watches and rejects new connections', async () => {
    const running = await start();
    const { response, batch } = await watch(running, 'agent.cp-1');
    await batch();
    const closed = running.server.close();
    assert.deepEqual(await batch(), [], 'the end');
    await closed;
    assert.equal(response.complete, true);
    await assert.rejects(ask(running, '/apis', 'user.a'));
  });

  it('on close ends watches one after the other, and serves those still open', async () => {
    const running = await start();
    const watches = await Promise.all(
      Array.from({ length: 60 }, (_, index) => watch(running, `user.u${index}`)),
    );
    await Promise.all(watches.map(({ batch }) => batch()));
    const closed = running.server.close();
    running.hub.setGate(false);
    await closed;
    const rest = await Promise.all(watches.map(({ batch }) => batch()));
    const served = rest.filter((messages) => types(messages).join() === 'gate,bookmark').length;
    assert.ok(served > 30 && served < 60, String(served));
    assert.deepEqual(new Set(rest.map((messages) => types(messages).join())), new Set(['', 'gate,bookmark']));
    assert.equal(running.hub.watchers, 0);
  });

  it('reads no more requests than it answers', async () => {
    let asked = 0;
    const running = await start({
      authenticate: () => {
        asked++;
        return new Promise(() => {});
      },
    });
    const socket: TLSSocket = connect({ host: 'localhost', port: running.port, ca: authority.certificate });
    sockets.push(socket);
    socket.on('error', () => {});
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

  it('answers invalid HTTP and an endless head', async () => {
    const running = await start({ limits: { head: 8 << 10 } });
    for (const [head, wanted] of [
      ['nonsense\r\n\r\n', '400'],
      [`GET / HTTP/1.1\r\nX: ${'x'.repeat(10 << 10)}\r\n\r\n`, '431'],
    ] as const) {
      const socket: TLSSocket = connect({ host: 'localhost', port: running.port, ca: authority.certificate });
      sockets.push(socket);
      socket.on('error', () => {});
      socket.end(head);
      const answer = await text(socket);
      assert.ok(answer.startsWith(`HTTP/1.1 ${wanted}`), answer);
    }
  });
});
