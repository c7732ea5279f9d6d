import assert from 'node:assert/strict';
import { CLIENTS, exactOutcome, givenOutcome, type Setting, targetsFor } from './table.ts';

const SETTINGS: readonly Setting[] = [
  { seenAs: 'pod', hasProxy: true, isAllowFinal: false },
  { seenAs: 'node', hasProxy: true, isAllowFinal: true },
  { seenAs: 'pod', hasProxy: false, isAllowFinal: false },
];

describe('the table of connections', () => {
  it('has connections that each client may and may not make', () => {
    for (const setting of SETTINGS)
      for (const client of CLIENTS) {
        const outcomes = targetsFor(client, setting).map((target) => exactOutcome(client, target, setting));
        const isLoopbackAlone = client === 'worker-2' && !setting.hasProxy;
        assert.equal(outcomes.includes('open'), true, client);
        assert.equal(
          outcomes.some((one) => one !== 'open'),
          !isLoopbackAlone,
          client,
        );
      }
  });

  it('opens nothing by a rule that the network does not give', () => {
    for (const setting of SETTINGS)
      for (const client of CLIENTS)
        for (const target of targetsFor(client, setting)) {
          const given = givenOutcome(client, target, setting);
          if (given !== 'open') assert.notEqual(exactOutcome(client, target, setting), 'open');
        }
  });

  it('tells pods with their own address from masqueraded ones', () => {
    const [own, masqueraded] = SETTINGS.map((setting) =>
      targetsFor('pod on worker-1', setting)
        .filter(({ kind, at }) => kind === 'NodePort' && at === 'worker-2')
        .map((target) => exactOutcome('pod on worker-1', target, setting)),
    );
    assert.deepEqual(own, ['open', 'refused']);
    assert.deepEqual(masqueraded, ['refused', 'open']);
  });
});
