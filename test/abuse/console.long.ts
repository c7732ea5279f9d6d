/**
 * The console's resources of a running controller, attacked by users who may read them: a thousand
 * watches, half of which take nothing, and previews whose text comes byte by byte.
 */

import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { OVERVIEW_WATCH, type Overview, PREVIEWS_PATH } from '../../apis/console.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { WATCHER_LIMITS } from '../../controller/console/overview-watchers.ts';
import { SERVER_LIMITS } from '../../controller/publish/limits.ts';
import { median } from '../../perf/measure/statistics.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { ApiServer, NODES, POLICIES } from './api-server.ts';
import { everything } from './clients.ts';
import { RunningController } from './running-controller.ts';

const API = `/apis/${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;
const NODE_COUNT = 500;
const POLICY_COUNT = 100;
/** As many watches as one user may have (publish/limits.ts), of so many users. */
const OF_USER = 20;
const USERS = 50;
/** Changes of all policies: more than the kernel keeps for a reader that takes nothing. */
const CHANGES = 100;
/** Milliseconds in which each watcher that reads has a change. */
const IN_TIME = 5_000;
/**
 * Bytes that 500 watches may cost: TLS, and what waits for those that take nothing. The pod's limit
 * is 3 GiB.
 */
const MOST_MEMORY = 384 << 20;
const MiB = 1 << 20;

/** A watch, and the highest generation of the first policy that it has had. */
interface Watch {
  readonly response: IncomingMessage;
  generation: number;
  isOpen: boolean;
}

describe('the console of a controller', function () {
  this.timeout(300_000);
  let api: ApiServer;
  let controller: RunningController;
  let generation = 1;

  before(async () => {
    api = await ApiServer.start();
    for (let i = 0; i < NODE_COUNT; i++)
      api.objects.put(NODES, {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: `node-${i}`, uid: `n${i}`, labels: {} },
        status: { addresses: [{ type: 'InternalIP', address: `10.1.${i >> 8}.${i & 255}` }] },
      });
    putPolicies();
    controller = await RunningController.start(api.objects.server);
  });
  after(async () => {
    await controller?.close();
    await api?.close();
  });

  /** All policies, in a new version. */
  function putPolicies(): void {
    for (let i = 0; i < POLICY_COUNT; i++) {
      const drop = { action: 'Drop', ports: [tcp(1 + ((generation * 7) % 60_000))] };
      api.objects.put(POLICIES, {
        apiVersion: 'nodewall.io/v1alpha1',
        kind: 'ClusterNetworkPolicy',
        metadata: { name: `policy-${i}`, uid: `p${i}`, generation },
        spec: { priority: 1 + i, appliedTo: [{ nodeSelector: {} }], ingress: [{ name: 'drop', ...drop }] },
      });
    }
  }

  const ask = (path: string, token: string) => controller.ask(`${API}/${path}`, { token });

  /** Null: it was refused, as it should be. */
  async function watch(user: number, reads: boolean): Promise<Watch | null> {
    const response = await controller.open(`${API}/${OVERVIEW_WATCH}`, { token: `user.w-${user}` });
    if (response.statusCode !== 200) {
      assert.equal(response.statusCode, 429);
      assert.match(await text(response), /the limit of concurrent watches of the overview is reached/);
      assert.equal(response.headers['retry-after'], '1');
      return null;
    }
    const one: Watch = { response, generation: 0, isOpen: true };
    response.once('close', () => {
      one.isOpen = false;
    });
    if (!reads) response.pause();
    else
      createInterface({ input: response })
        .on('line', (line) => {
          const found = line === '' ? null : (JSON.parse(line) as Partial<Overview>);
          const first = found?.policies?.find(({ name }) => name === 'policy-0');
          one.generation = first?.generation ?? one.generation;
        })
        .on('error', () => {});
    return one;
  }

  it('serves 500 of a thousand watches, and goes on for those who read, whatever the others take', async () => {
    await until(
      'there is an overview',
      async () => (await ask('overviews/cluster', 'user.reader')).code === 200,
    );
    const agent = await controller.agent('node-0');
    await until('an agent follows', async () => agent.bookmarks > 0);
    const before = controller.rss;
    const watches: (Watch | null)[] = [];
    for (let i = 0; i < OF_USER; i++)
      watches.push(
        ...(await Promise.all(Array.from({ length: USERS }, (_, user) => watch(user, user % 2 === 0)))),
      );
    const open = watches.filter((one) => one !== null);
    assert.equal(open.length, WATCHER_LIMITS.most);
    const reading = open.filter(({ response }) => !response.isPaused());
    const silent = open.filter(({ response }) => response.isPaused());
    assert.ok(reading.length >= 200 && silent.length >= 200, `${reading.length}, ${silent.length}`);
    const opened = controller.rss - before;

    const times: number[] = [];
    let most = 0;
    for (let i = 0; i < CHANGES; i++) {
      generation++;
      putPolicies();
      const took = await until('all who read have the change', async () =>
        reading.every((one) => one.generation === generation),
      );
      times.push(took);
      most = Math.max(most, controller.rss - before);
    }
    const figures = `500 watches: ${(opened / MiB).toFixed()} MiB; at most ${(most / MiB).toFixed()} MiB in ${CHANGES} changes of all ${POLICY_COUNT} policies; all ${reading.length} who read have a change after ${median(times).toFixed()} ms (median), ${Math.max(...times).toFixed()} ms (worst)`;
    process.stdout.write(`      ${figures}\n`);
    assert.ok(Math.max(...times) <= IN_TIME, figures);
    assert.ok(most <= MOST_MEMORY, figures);

    const bookmarks = agent.bookmarks;
    generation++;
    putPolicies();
    await until('the agent has the change', async () => agent.bookmarks > bookmarks);
    assert.equal((await ask('overviews/drops', 'user.reader')).code, 200);
    assert.equal(await watch(USERS, true), null, 'one more is refused');
    await controller.healthy();

    const limit = WATCHER_LIMITS.stalled + 2 * WATCHER_LIMITS.heartbeat;
    let asking = USERS;
    await until('those who take nothing are ended', async () => (await watch(++asking, true)) !== null, {
      limit,
    });
    for (let i = 0; i < OF_USER; i++) assert.ok(await watch(asking + 1, true), 'there is room again');
    assert.ok(
      reading.every(({ isOpen }) => isOpen),
      'those who read are not ended',
    );
  });

  it('ends previews that come byte by byte, few at a time, and answers others meanwhile', async () => {
    const body = JSON.stringify({ yaml: 'x'.repeat(10_000) });
    const head = [
      `POST ${PREVIEWS_PATH} HTTP/1.1`,
      ...['Host: x', 'Authorization: Bearer user.slow', 'Content-Type: application/json'],
      ...[`Content-Length: ${body.length}`, '', ''],
    ].join('\r\n');
    const slow = await Promise.all(Array.from({ length: 5 }, () => controller.connect()));
    const began = performance.now();
    const answers = slow.map(everything);
    for (const socket of slow) socket.write(head);
    let sent = 0;
    const drip = setInterval(() => {
      for (const socket of slow) if (!socket.destroyed) socket.write(body[sent] ?? ' ');
      sent++;
    }, 100);
    const yaml = JSON.stringify(policy('new', { ingress: [{ action: 'Drop', ports: [tcp(22)] }] }));
    const options = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const { code, body: preview } = await controller.ask(PREVIEWS_PATH, {
      ...options,
      token: 'user.other',
      body: JSON.stringify({ yaml }),
    });
    assert.equal(code, 200, preview);
    const found = await Promise.all(answers);
    clearInterval(drip);
    const took = performance.now() - began;
    const codes = found.map((answer) => /^HTTP\/1.1 (\d+)/.exec(answer)?.[1] ?? '').sort();
    assert.deepEqual(codes.slice(-3), ['429', '429', '429'], codes.join());
    assert.ok(
      codes.slice(0, 2).every((one) => one === '' || one === '408'),
      codes.join(),
    );
    assert.ok(took >= SERVER_LIMITS.requestTime && took < SERVER_LIMITS.requestTime + 10_000, `${took} ms`);
    // What they held is free again.
    const again = await controller.ask(PREVIEWS_PATH, {
      ...options,
      token: 'user.slow',
      body: JSON.stringify({ yaml }),
    });
    assert.equal(again.code, 200, again.body);
    assert.doesNotMatch(
      controller.log,
      /internal error|unhandled/i,
      'slow clients are no errors of the controller',
    );
  });
});
