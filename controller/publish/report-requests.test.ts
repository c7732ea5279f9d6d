import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH, type NodeReport } from '../../apis/stream.ts';
import { JSON_TYPE, REPORT, ServerBed } from '../../test/fake/server-bed.ts';
import { type Failure, failure } from './failure.ts';
import { REPORTS_PATH } from './report-batch.ts';

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
});
