/**
 * Everything that strangers can send, at the same time, to all ports of a controller. Agents, the
 * API server's own reviews and health checks go on, and memory stays within the bound that
 * docs/operations.md states.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { SERVER_LIMITS } from '../../controller/publish/server.ts';
import { ADMISSION_LIMITS } from '../../controller/webhook/admission-process.ts';
import { until } from '../kernel/until.ts';
import { BODIES, NESTED, reviewOf } from './bodies.ts';
import { ControlPlane } from './control-plane.ts';

const MiB = 1 << 20;
/** Milliseconds of the attack. */
const TIME = 5000;
/**
 * Milliseconds, each far above what a machine with nothing else to do needs: the API server waits
 * 5 s for a review, a kubelet for health, an agent 75 s for a bookmark.
 */
const LONGEST = { review: 4500, health: 4000, heartbeat: 4000, delay: 2000 };
const SMALL = reviewOf(
  '{"apiVersion":"nodewall.io/v1alpha1","kind":"Tier","metadata":{"name":"t"},"spec":{"priority":7}}',
);
const JSON_BODY = { method: 'POST', headers: { 'content-type': 'application/json' } };

describe('a controller, attacked on all ports at once', function () {
  this.timeout(90_000);
  let plane: ControlPlane;
  before(async () => {
    plane = await ControlPlane.start();
  });
  after(() => plane.close());

  /** Repeats until the time is over; returns the longest time that one took. */
  async function repeat(end: number, act: () => Promise<unknown>): Promise<number> {
    let longest = 0;
    while (performance.now() < end) {
      const began = performance.now();
      await act();
      longest = Math.max(longest, performance.now() - began);
    }
    return longest;
  }

  const slowest = reviewOf(BODIES['unknown fields of a rule']?.[0] ?? '');
  const review = (body: string | Buffer, from: string) =>
    plane.ask('/validate', { ...JSON_BODY, port: plane.ports.webhook, body, from });

  /** A few connections each, on all ports. */
  function attackers(end: number): Promise<number>[] {
    const objects = [...NESTED, ...Object.values(BODIES).map(([object]) => object)];
    const bodies = objects.map((object) => Buffer.from(reviewOf(object)));
    const large = (index: number) =>
      repeat(end, async () => {
        const body = bodies[Math.floor(Math.random() * bodies.length)] ?? Buffer.alloc(0);
        await review(body, `127.0.1.${1 + (index % 4)}`).catch(() => {});
      });
    const endless = (index: number) =>
      repeat(end, async () => {
        const socket = await plane.connect({ port: plane.ports.webhook, from: `127.0.2.${1 + (index % 4)}` });
        socket.write(
          'POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n',
        );
        socket.write(Buffer.alloc(7 * MiB, 32));
        await sleep(1000);
        socket.destroy();
      });
    const idle = (index: number) =>
      repeat(end, async () => {
        const port = [plane.ports.agents, plane.ports.webhook][index % 2] ?? 0;
        const socket = await plane.connect({ port, from: `127.0.3.${1 + (index % 8)}` });
        socket.write(`GET /apis HTTP/1.1\r\nX: ${'x'.repeat(7000)}`);
        await sleep(300);
      });
    const slow = () =>
      repeat(end, async () => {
        const response = await plane.open('/metrics', { token: 'user.slow', from: '127.0.4.1' });
        response.pause();
        await sleep(200);
      });
    const knocking = () =>
      repeat(end, () => plane.ask('/apis', { token: 'x', from: '127.0.5.1' }).catch(() => {}));
    return [
      ...Array.from({ length: 3 }, (_, index) => large(index)),
      ...Array.from({ length: 5 }, (_, index) => endless(index)),
      ...Array.from({ length: 15 }, (_, index) => idle(index)),
      slow(),
      knocking(),
    ];
  }

  it('keeps its times and its memory', async () => {
    const agent = await plane.agent('node-0');
    await until('the agent has its view', async () => agent.bookmarks > 0);
    assert.match((await review(SMALL, '127.0.9.2')).body, /"allowed":true/);
    // A machine that has more to do checks one body as much longer.
    const alone = await repeat(performance.now() + 1000, () => review(slowest, '127.0.9.3'));
    const quiet = await plane.stats();
    const end = performance.now() + TIME;
    let most = quiet.rss;
    let delay = 0;
    const attack = attackers(end);
    const [ofReviews, ofHealth, ofHeartbeats] = await Promise.all([
      repeat(end, async () => {
        assert.match((await review(SMALL, '127.0.9.2')).body, /"allowed":true/);
        await sleep(50);
      }),
      repeat(end, async () => {
        assert.equal((await fetch(`http://127.0.0.1:${plane.ports.health}/healthz`)).status, 200);
        await sleep(50);
      }),
      repeat(end, async () => {
        const { bookmarks } = agent;
        plane.change();
        await until('the agent has the change', async () => agent.bookmarks > bookmarks);
      }),
      repeat(end, async () => {
        const stats = await plane.stats();
        most = Math.max(most, stats.rss);
        delay = Math.max(delay, stats.delay);
        assert.deepEqual(stats.failures, []);
        await sleep(50);
      }),
    ]);
    await Promise.all(attack);
    const found = { review: ofReviews, health: ofHealth, heartbeat: ofHeartbeats, delay };
    for (const [what, longest] of Object.entries(LONGEST)) {
      const most = Math.max(longest, 8 * alone);
      assert.ok(found[what as keyof typeof found] < most, JSON.stringify({ alone, ...found }));
    }
    const bound =
      64 * MiB + ADMISSION_LIMITS.heap * MiB + 2 * 24 * MiB + SERVER_LIMITS.connections * 2 * 64 * 1024;
    const grown = most - quiet.rss;
    assert.ok(grown < bound, `${Math.round(grown / MiB)} MiB more, and at most ${bound / MiB} are allowed`);
    assert.equal(agent.isOpen, true);
  });
});
