import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { OutgoingHttpHeaders } from 'node:http';
import type { Compiled } from '../../apis/compiled.ts';
import { MOST_HELD } from '../../apis/held-view.ts';
import { NODE_VIEWS_PATH, type StreamMessage } from '../../apis/stream.ts';
import { JSON_TYPE, linesOf, objects, REPORT, ServerBed, types } from '../../test/fake/server-bed.ts';
import { compile, compiler } from '../compile/compile.ts';
import { Hub } from './hub.ts';

/** Two states that differ in a set of 30,000 addresses: it is sent whole, 400 kB. */
function wholeSets(): readonly Compiled[] {
  const next = compiler();
  return [1, 2].map((second) => next(objects(30_000, second)));
}

describe('streams of node views', () => {
  const bed = new ServerBed();
  const { start, send, ask, watch } = bed;

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
    const slow = bed.connect(running);
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
});
