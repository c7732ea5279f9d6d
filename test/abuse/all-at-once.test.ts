/**
 * Everything that strangers and stolen tokens can send, at the same time, to all ports of a
 * controller, while agents follow and policies change. No change is missed or late, the leader
 * stays, reviews and health checks go on, and memory stays within the bound of docs/cluster.md.
 */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { ATTACKS, POST_JSON } from './attacks.ts';
import { BODIES, reviewOf } from './bodies.ts';
import { assertInTime, assertMemory, Churn } from './churn.ts';

/** The attackers have half of this time (milliseconds). */
const TIME = 8_000;
const ROUNDS = 2;
/**
 * Milliseconds, each far above what a machine with nothing else to do needs: the API server waits
 * 5 s for a review, a kubelet for health.
 */
const LONGEST = { review: 4500, health: 4000 };
/** A machine that has more to do needs as much longer as this body by itself. */
const SLOWEST = reviewOf(BODIES['unknown fields of a rule']?.[0] ?? '');
const SMALL = reviewOf(
  '{"apiVersion":"nodewall.io/v1alpha1","kind":"Tier","metadata":{"name":"t"},"spec":{"priority":7}}',
);

kernelSuite('a controller, attacked on all ports at once', () => {
  let churn: Churn;
  before(async () => {
    churn = await Churn.start();
  });
  after(() => churn?.close());

  it('enforces every change in time, leads on, and keeps its memory', async () => {
    const { controller } = churn;
    const longest = { review: 0, health: 0, rss: 0 };
    const repeat = async (over: AbortSignal, what: keyof typeof LONGEST, act: () => Promise<void>) => {
      for (; !over.aborted; await sleep(50)) {
        const began = performance.now();
        await act();
        longest[what] = Math.max(longest[what], performance.now() - began);
      }
    };
    const review = (body: string) =>
      controller.ask(controller.reviewPath, {
        ...POST_JSON,
        port: controller.ports.webhook,
        body,
        from: '127.0.9.2',
      });
    await review(SMALL);
    const began = performance.now();
    for (let count = 0; count < 3; count++) await review(SLOWEST);
    const alone = (performance.now() - began) / 3;
    const before = controller.rss;
    const compared = await churn.compare(Object.keys(ATTACKS), {
      rounds: ROUNDS,
      time: TIME / 2 / ROUNDS,
      beside: (over) =>
        Promise.all([
          repeat(over, 'review', async () => {
            assert.match((await review(SMALL)).body, /"allowed":true/);
          }),
          repeat(over, 'health', async () => {
            await controller.healthy();
            longest.rss = Math.max(longest.rss, controller.rss);
          }),
        ]),
    });
    await churn.verify();
    assertInTime(compared);
    assertMemory(longest.rss - before);
    for (const what of ['review', 'health'] as const)
      assert.ok(longest[what] < Math.max(LONGEST[what], 12 * alone), JSON.stringify({ alone, longest }));
  });
});
