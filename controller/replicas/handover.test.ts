import assert from 'node:assert/strict';
import type { ControllerPod } from './controller-pods.ts';
import { type HandoverFacts, handover, LEAST_SERVING, LONGEST_SERVING } from './handover.ts';

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
