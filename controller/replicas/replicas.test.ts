import assert from 'node:assert/strict';
import {
  type ControllerPod,
  type HandoverFacts,
  handOver,
  handover,
  LEAST_SERVING,
  LONGEST_SERVING,
} from './replicas.ts';

const pod = (name: string, more: Partial<ControllerPod> = {}): ControllerPod => {
  const usual = {
    isRunning: true,
    isTerminating: false,
    isOnHostNetwork: false,
    addresses: [`ip of ${name}`],
  };
  return { name, ...usual, ...more };
};
const SELF = pod('self', { isTerminating: true });
const FACTS: HandoverFacts = {
  self: 'self',
  pods: [SELF, pod('other')],
  isNamespaceTerminating: false,
  agents: 1,
  isPublished: () => true,
  unsentBytes: 0,
  waited: LEAST_SERVING,
};
const nextOf = (more: Partial<HandoverFacts>): string => handover({ ...FACTS, ...more }).next;

describe('handover', () => {
  it('ends when the address of a successor has been sent to agents', () => {
    assert.equal(nextOf({}), 'end');
    assert.equal(nextOf({ isPublished: ({ name }) => name !== 'other' }), 'serve');
    assert.equal(nextOf({ unsentBytes: 1 }), 'serve');
    assert.equal(
      nextOf({ isPublished: () => false, pods: [SELF, pod('other', { isOnHostNetwork: true })] }),
      'end',
    );
  });

  it('counts only running other pods with addresses that are not being deleted', () => {
    const none: Partial<ControllerPod>[] = [{ isRunning: false }, { isTerminating: true }, { addresses: [] }];
    for (const more of none) assert.equal(nextOf({ pods: [SELF, pod('other', more)] }), 'serve');
    assert.equal(nextOf({ pods: [pod('self')] }), 'serve');
    assert.equal(nextOf({ pods: [] }), 'serve');
  });

  it('ends at the longest serving time', () => {
    assert.equal(nextOf({ pods: [SELF], waited: LONGEST_SERVING - 1 }), 'serve');
    assert.equal(nextOf({ pods: [SELF], waited: LONGEST_SERVING }), 'end');
  });

  it('serves for the least time, with agents or without', () => {
    for (const agents of [1, 0]) {
      assert.equal(nextOf({ agents, waited: LEAST_SERVING - 1 }), 'serve');
      assert.equal(nextOf({ agents }), 'end');
    }
    assert.equal(nextOf({ agents: 0, pods: [SELF] }), 'end');
  });

  it('ends at once if there can be no successor', () => {
    assert.equal(nextOf({ self: null, pods: [], waited: 0 }), 'end');
    assert.equal(nextOf({ isNamespaceTerminating: true, pods: [SELF], waited: 0 }), 'end');
  });
});

describe('handOver', () => {
  const ALONE = { ...FACTS, pods: [], isPublished: () => false };

  /** The duration of a handover, on a clock that its waits advance, and the reason why it ended. */
  async function lasting(facts: Partial<typeof ALONE>, overAt = Number.POSITIVE_INFINITY) {
    let now = 1_000;
    const started = now;
    const why = await handOver({
      clock: { now: () => now },
      facts: () => ({ ...ALONE, ...facts }),
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
