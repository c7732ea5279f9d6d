/** Each attack by itself, while agents follow and policies change. */

import { setTimeout as sleep } from 'node:timers/promises';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { ATTACKS } from './attacks.ts';
import { assertInTime, assertMemory, Churn } from './churn.ts';

/** Milliseconds, of each attack; half of it is without. */
const TIME = 30_000;
const ROUNDS = 3;

kernelSuite('a controller under churn', () => {
  for (const attack of Object.keys(ATTACKS)) {
    it(`enforces every change in time while attacked by ${attack}`, async () => {
      const churn = await Churn.start();
      try {
        const before = churn.controller.rss;
        let most = 0;
        const compared = await churn.compare([attack], {
          rounds: ROUNDS,
          time: TIME / 2 / ROUNDS,
          async beside(over) {
            for (; !over.aborted; await sleep(100)) most = Math.max(most, churn.controller.rss);
          },
        });
        await churn.verify();
        assertInTime(compared);
        assertMemory(most - before);
      } finally {
        await churn.close();
      }
    });
  }
});
