import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { AGENT_CALLS, type Call, pathOf } from '../../apis/calls.ts';
import { CONTROLLERS_PATH, type ControllerList, type ControllerState } from '../../apis/controller-state.ts';
import { ALL_NODES_PATH, MOST_ANSWER, nodeDataPath, type QuestionAnswer } from '../../apis/node-question.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { CONTROL_PLANE, NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { identityOf, JSON_TYPE, REPORT, ServerBed, types } from '../../test/fake/server-bed.ts';
import { type Failure, failure } from './answer.ts';
import { ROWS } from './calls.ts';
import { PEER_CALLS } from './peer-calls.ts';

const CALLS: readonly Call<never, unknown>[] = [...Object.values(AGENT_CALLS), ...Object.values(PEER_CALLS)];
const of = (path: string): string => path.replace('{node}', 'cp-1').replace('{name}', 'x');

describe('the table of calls', () => {
  const { start, ask } = new ServerBed();

  it('has a row for each call of an agent and of a controller, and limits its body', () => {
    for (const { method, path } of CALLS)
      assert.equal(
        ROWS.filter((row) => row.path === path && row.methods.some((one) => one === method)).length,
        1,
        `${method} ${path}`,
      );
  });

  it('has one row for a method of a path', () => {
    const keys = ROWS.flatMap(({ methods, path, isWatch }) =>
      methods.map((one) => `${one} ${path} ${isWatch}`),
    );
    assert.equal(new Set(keys).size, keys.length);
  });

  it('limits what strangers, agents and users ask for; only discovery costs nothing', () => {
    const unlimited = ROWS.filter(({ limit, caller }) => limit === null && caller !== 'controller');
    for (const { path } of unlimited)
      assert.match(path, /^\/(apis(\/controlplane\.nodewall\.io(\/v1alpha1)?)?|openapi\/.*)$/);
    assert.equal(unlimited.length, 6);
  });

  it('answers nobody without a token, and only controllers what is theirs', async () => {
    const running = await start();
    for (const { methods, path, caller } of ROWS)
      for (const method of methods) {
        const code = async (token: string) => (await ask(running, of(path), token, { method })).code;
        assert.equal(await code(''), 401, `${method} ${path}`);
        if (caller === 'controller')
          for (const token of ['user.kim', 'agent.cp-1'])
            assert.equal(await code(token), 401, `${method} ${path}`);
      }
  });

  it('lets an agent make the calls of its own node alone', async () => {
    const running = await start();
    for (const call of Object.values(AGENT_CALLS)) {
      const { code } = await ask(running, pathOf(call, 'cp-1'), 'agent.cp-2', { method: call.method });
      assert.equal(code, 403, call.path);
    }
  });

  it('asks for the right of users, before anything is read', async () => {
    const running = await start();
    const theirs = ROWS.filter(
      ({ caller, path }) => caller === 'user' && path.startsWith('/apis/controlplane.nodewall.io/v1alpha1/'),
    );
    for (const { methods, path } of theirs)
      for (const method of methods)
        assert.equal(
          (await ask(running, of(path), 'user.mallory', { method })).code,
          403,
          `${method} ${path}`,
        );
    assert.ok(theirs.length >= 15);
  });
});

describe('requests with reports', () => {
  const { start, ask } = new ServerBed();

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
      ask(running, PEER_CALLS.reports.path, token, { method: 'POST', headers, body: JSON.stringify(body) });
    const of = (node: string, more: object = {}) => ({ ...REPORT, node, ...more });
    assert.equal((await post({ reports: [] }, 'agent.cp-1')).code, 401);
    assert.equal((await ask(running, PEER_CALLS.reports.path, 'user.a')).code, 401);
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
    const { body } = await ask(running, PEER_CALLS.reports.path, 'controller');
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
});

describe('heartbeats of egress gateways', () => {
  const { start, ask } = new ServerBed();

  it('takes heartbeats of an agent for its own node, and those that controllers pass on', async () => {
    const heartbeat = (node: string) => ({ node, boot: 'b', sent: 1, held: [], ready: [] });
    const grants = [{ gateway: 'g', slot: '0', epoch: 1, addresses: ['198.51.100.1'], milliseconds: 2000 }];
    let leads = true;
    const takeAsLeader = () => (leads ? { grants } : null);
    const running = await start({
      leases: { answer: async () => takeAsLeader(), answerAsLeader: takeAsLeader },
    });
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
    assert.equal((await post(PEER_CALLS.leases.path, 'agent.cp-1', batch)).code, 401);
    assert.equal((await post(PEER_CALLS.leases.path, 'controller', { requests: [{}] })).code, 422);
    assert.deepEqual((await post(PEER_CALLS.leases.path, 'controller', batch)).body, {
      answers: [{ grants }, { grants }],
    });
    leads = false;
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'))).code, 503);
    assert.deepEqual((await post(PEER_CALLS.leases.path, 'controller', batch)).body, {
      answers: [null, null],
    });
    const codes: (number | undefined)[] = [];
    for (let i = 0; i < 61; i++) codes.push((await beat('cp-2', 'agent.cp-2', heartbeat('cp-2'))).code);
    assert.deepEqual([codes.indexOf(429), codes[0]], [60, 503]);
    const gateOff = await start();
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'), gateOff)).code, 404);
  });
});

describe('probes to nodes', () => {
  const { start, ask, watch } = new ServerBed();

  it('takes questions of an agent for probes to its own node, and answers; controllers pass both on', async () => {
    const results = [{ name: 'ssh', notMade: 'no other agent' }];
    const heard: unknown[] = [];
    const take = async (...of: unknown[]) => {
      heard.push(of);
      return { results };
    };
    const running = await start({
      probes: {
        answer: take,
        answerHere: async (...of) => (await take('here', ...of)).results,
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
    assert.equal((await post(PEER_CALLS.probes.path, 'agent.cp-1', { kind: 'answer' })).code, 401);
    assert.equal((await post(PEER_CALLS.probes.path, 'controller', { kind: 'question' })).code, 422);
    const passed = { kind: 'question', node: 'cp-2', ...question };
    assert.deepEqual((await post(PEER_CALLS.probes.path, 'controller', passed)).body, { results });
    await post(PEER_CALLS.probes.path, 'controller', { kind: 'answer', prober: 'cp-2', answer });
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
});

const METRICS = { about: 'metrics', query: '' } as const;

describe('requests for what only a node knows', () => {
  const { start, ask, watch } = new ServerBed();

  it('gives users what only a node knows, if they may have it', async () => {
    const answers: QuestionAnswer[] = [];
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
    // An agent asks its own node at most.
    assert.equal((await get(path, 'agent.cp-2')).code, 403);
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
});

describe('scrapes', () => {
  const { start, send, ask } = new ServerBed();

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
      [`${ALL_NODES_PATH}/cp-1`, 'user.prometheus'],
      [NODE_VIEWS_PATH, 'user.kim'],
      [`${NODE_VIEWS_PATH}/cp-1`, 'agent.cp-1'],
      [PEER_CALLS.reports.path, 'controller'],
      ['/apis', 'user.kim'],
    ] as const;
    for (const [path, token] of others) assert.equal(await code(path, token), 503, path);
    assert.equal(await code('/metrics', 'user.prometheus'), 200);
    assert.equal(await code('/metrics', 'user.mallory'), 403);
    assert.equal(await code('/metrics', ''), 401);
    isOpen = true;
    for (const [path, token] of others.filter(([path]) => path !== `${ALL_NODES_PATH}/cp-1`))
      assert.equal(await code(path, token), 200, path);
  });

  it('gives scrapers what an agent answers; controllers pass both on', async () => {
    const heard: unknown[] = [];
    let isBehind = false;
    const answered = async (...of: unknown[]): Promise<QuestionAnswer> => {
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
      const response = await send(running, `${ALL_NODES_PATH}/${encodeURIComponent(node)}`, token);
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
    const own = pathOf(AGENT_CALLS.answer, 'cp-1');
    assert.equal((await post(own, 'agent.cp-1', answer)).code, 204);
    assert.equal((await post(own, 'agent.cp-2', answer)).code, 403);
    assert.equal((await post(own, 'agent.cp-1', { id: '1' })).code, 422);
    assert.equal((await post(own, 'agent.cp-1', { id: '1', text: 'x'.repeat(MOST_ANSWER) })).code, 413);
    const question = { kind: 'question', node: 'cp-1', about: 'metrics', query: '' };
    assert.equal((await post(PEER_CALLS.questions.path, 'agent.cp-1', question)).code, 401);
    assert.deepEqual((await post(PEER_CALLS.questions.path, 'controller', question)).body, { text: 'a 1\n' });
    await post(PEER_CALLS.questions.path, 'controller', { kind: 'answer', node: 'cp-1', answer });
    assert.equal(
      (await post(PEER_CALLS.questions.path, 'controller', { kind: 'answer', node: 'cp-1' })).code,
      422,
    );
    assert.deepEqual(heard, [
      ['cp-1', METRICS],
      ['cp-2', METRICS],
      ['cp-1', answer],
      ['here', 'cp-1', METRICS],
      ['here', 'cp-1', answer],
    ]);
    const limited: (number | undefined)[] = [];
    for (let i = 0; i < 33; i++)
      limited.push((await post(pathOf(AGENT_CALLS.answer, 'cp-2'), 'agent.cp-2', answer)).code);
    assert.deepEqual([limited[0], limited.indexOf(429)], [204, 31]);
  });
});

describe('requests for the state of controllers', () => {
  const { start, ask } = new ServerBed();

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
    assert.deepEqual((await ask(running, PEER_CALLS.state.path, 'controller')).body, own);
    for (const token of ['user.kim', 'agent.cp-1', ''])
      assert.equal((await ask(running, PEER_CALLS.state.path, token)).code, 401, token);
    const silent = await start();
    assert.equal((await ask(silent, CONTROLLERS_PATH, 'user.kim')).code, 404);
  });
});
