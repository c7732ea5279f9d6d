import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EgressOutcome } from '../../apis/egress/node-egress.ts';
import type { Log } from '../../lib/process/log.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { stateOf } from '../../test/fake/node-state.ts';
import { SteeredConnections } from './steered-connections.ts';

const NONE = stateOf([]);

/** A state with one policy. */
function steering(more: Partial<EgressOutcome> = {}) {
  const policy = { kind: 'EgressPolicy', apiGroup: 'nodewall.io', namespace: 'shop', name: 'bank' } as const;
  const outcome: EgressOutcome = { id: 'o', policy, audited: [], action: { kind: 'pass' }, ...more };
  return { ...NONE, egress: fakeNodeEgress({ outcomes: new Map([['o', outcome]]) }) };
}

describe('connections of an agent with egress gateways', () => {
  let passes: number;
  let passed: PromiseWithResolvers<void>;
  let steered: SteeredConnections;
  beforeEach(() => {
    passes = 0;
    passed = Promise.withResolvers();
    const log = { error: assert.fail } as unknown as Log;
    steered = new SteeredConnections({ options: { node: 'n' }, log, clock: fakeClock() }, async () => {
      passes++;
      passed.resolve();
      return { examined: 0, ended: 0, failed: 0, error: null } as never;
    });
  });
  afterEach(() => steered.close());

  it('may have to end when a policy with established: Recheck decides otherwise', () => {
    const recheck = steering({ established: 'Recheck' });
    assert.equal(steered.enforced(NONE), false);
    assert.equal(steered.enforced(steering()), false, 'they go on');
    assert.equal(steered.enforced(recheck), true);
    assert.equal(steered.enforced(recheck), false, 'nothing is different');
    assert.equal(steered.rechecks(), true);
  });

  it('are not asked about while no state in force has a part', async () => {
    const pass = { isDryRun: false, signal: new AbortController().signal, ended() {} };
    steered.enforced(steering());
    assert.notEqual(await steered.flush(pass), null);
    steered.enforced(NONE);
    assert.equal(await steered.flush(pass), null);
    assert.deepEqual(
      [...steered.policies()],
      ['shop/bank'],
      'those of a policy that was removed can be ended',
    );
    assert.equal(passes, 1);
  });

  it('end that pods began while their rules were away, once these are back', async () => {
    steered.drifted(['rule in chain input']);
    steered.enforced(steering());
    steered.drifted(['chain egress-steer is missing']);
    steered.enforced(steering());
    steered.enforced(steering());
    await passed.promise;
    await nextTurn();
    assert.equal(passes, 1, 'for the second repair alone');
  });
});
