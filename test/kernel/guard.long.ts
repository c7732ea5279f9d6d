/**
 * Guarded apply, many times: changes that cut the node off, by IPv4 and IPv6, under a flood of
 * packets that the confirmed rules drop; interruptions at random moments of the window.
 * NODEWALL_TRIALS is the number of each.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { dataplaneSuite, EITHER_IPTABLES } from './dataplane.ts';
import { leakedDuring } from './flood.ts';
import { GuardedNode } from './guarded-node.ts';
import { until } from './until.ts';

const { NODEWALL_TRIALS = '50' } = process.env;
const TRIALS = Number(NODEWALL_TRIALS);
const CLOSED = 20_000;
/** Milliseconds in which the old verdicts must be back, with the default times. */
const WITHIN = 20_000;

for (const dataplane of EITHER_IPTABLES) {
  dataplaneSuite('guarded apply, long', dataplane, () => {
    let guarded: GuardedNode;
    let marker = 30_000;
    before(async () => {
      guarded = await GuardedNode.create(dataplane);
      await guarded.open(CLOSED, 'Drop');
    });
    after(() => guarded?.close());
    afterEach(() => guarded.end());

    /** The confirmed rules alone are in force. */
    const isBack = async () => (await guarded.has(String(CLOSED))) && !(await guarded.has(String(marker)));
    const confirmed = () =>
      until('rules are confirmed', async () =>
        (await guarded.file('node-state.jsonl')).includes(String(CLOSED)),
      );
    const back = () => until('the confirmed rules are back', isBack, { detail: guarded.agent.log });

    async function cutAndBack(family: 4 | 6): Promise<number> {
      await guarded.cut(++marker, family);
      // The rule is of one family: with iptables the other one never has it.
      await until('the change is in force', () => guarded.has(String(marker)), { detail: guarded.agent.log });
      const since = performance.now();
      await back();
      return performance.now() - since;
    }

    for (const family of [4, 6] as const) {
      it(`the old verdicts are back within 20 s, IPv${family}, and nothing passes that they drop`, async function () {
        this.timeout(TRIALS * 60_000);
        await guarded.start({ window: 10, failAfter: 15 });
        await confirmed();
        const target = { protocol: 'tcp', port: CLOSED, family, client: 1 } as const;
        const { sent, leaked } = await leakedDuring(guarded.node.topology, target, async () => {
          const took = await cutAndBack(family);
          assert.ok(took <= WITHIN, `${took} ms`);
        });
        assert.ok(sent > 100_000, `${sent} packets were sent`);
        assert.equal(leaked, 0);
        await guarded.end();
        await guarded.start();
        for (let i = 0; i < TRIALS; i++) await cutAndBack(family);
      });
    }

    it('interrupted at any moment, ends with the confirmed rules', async function () {
      this.timeout(TRIALS * 60_000);
      await guarded.start();
      await confirmed();
      for (let i = 0; i < TRIALS; i++) {
        await guarded.cut(++marker, i % 2 === 0 ? 4 : 6);
        await sleep(Math.random() * 2_500);
        const kind = i % 4;
        if (kind !== 1) await guarded.end();
        if (kind === 1 || kind === 2) await guarded.node.lose();
        await sleep(Math.random() * 500);
        if (kind !== 1) await guarded.start();
        await until(
          `trial ${i} ends`,
          async () => {
            const { trial = null, holds = [] } = JSON.parse((await guarded.memory()) || '{}');
            return (
              trial === null && holds.some((one: { isBrief: boolean }) => !one.isBrief) && (await isBack())
            );
          },
          { detail: guarded.agent.log },
        );
      }
    });
  });
}
