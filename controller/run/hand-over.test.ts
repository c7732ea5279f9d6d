import assert from 'node:assert/strict';
import { LEAST_SERVING, LONGEST_SERVING } from '../replicas/handover.ts';
import { handOver } from './hand-over.ts';

const FACTS = {
  self: 'a' as string | null,
  pods: [],
  isNamespaceTerminating: false,
  agents: 1,
  isPublished: () => false,
  unsentBytes: 0,
};

describe('handOver', () => {
  /** The duration of a handover, on a clock that its waits advance, and the reason why it ended. */
  async function lasting(facts: Partial<typeof FACTS>, overAt = Number.POSITIVE_INFINITY) {
    let now = 1_000;
    const started = now;
    const why = await handOver({
      clock: { now: () => now },
      facts: () => ({ ...FACTS, ...facts }),
      async changed(milliseconds) {
        now += milliseconds;
      },
      isOver: () => now >= started + overAt,
    });
    return { waited: now - started, why };
  }

  it('waits while its agents have no successor, up to a limit', async () => {
    const { waited, why } = await lasting({});
    assert.equal(waited, LONGEST_SERVING);
    assert.match(why ?? '', /no successor/);
  });

  it('waits for callers to learn of the end if it serves no agents', async () => {
    assert.equal((await lasting({ agents: 0 })).waited, LEAST_SERVING);
  });

  it('ends at once outside a pod, and when the controller is over', async () => {
    assert.equal((await lasting({ self: null })).waited, 0);
    assert.deepEqual(await lasting({}, 0), { waited: 0, why: null });
    assert.deepEqual(await lasting({}, 500), { waited: 500, why: null });
  });
});
