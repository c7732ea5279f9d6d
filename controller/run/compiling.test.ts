import assert from 'node:assert/strict';
import { NO_OBJECTS } from '../../apis/objects.ts';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { compiler } from '../compile/compile.ts';
import type { Snapshot } from '../watch/source.ts';
import { Compiling } from './compiling.ts';

const SNAPSHOT: Snapshot = { objects: NO_OBJECTS, problems: [], files: 0, complete: true };

describe('compiling', () => {
  function compiling(failures: number) {
    const said: string[] = [];
    let made = 0;
    const one = new Compiling({
      hub: {
        publish: () => said.push('publish') && 0,
        setEndpoints: () => void said.push('endpoints'),
        revision: 'a.1',
      },
      statuses: { publish: (_snapshot, _compiled, revision) => void said.push(`statuses of ${revision}`) },
      metrics: {
        compiled: () => void said.push('measured'),
        published: () => {},
        failed: () => void said.push('failed'),
        delayed: () => void said.push('delayed'),
      },
      log: { error: (text: string) => said.push(text) } as unknown as Log,
      clock: fakeClock(),
      compiler: () => {
        made++;
        if (made > failures) return compiler();
        const fault = (): never => {
          throw new Error('a fault');
        };
        return Object.assign(fault, { prepare: fault });
      },
      sayProblems: () => void said.push('problems'),
      published: () => void said.push('published'),
    });
    return { one, said };
  }
  const FAULT = ['failed', 'internal error; agents keep the published rules'];
  const GOOD = ['endpoints', 'publish', 'measured', 'statuses of a.1', 'published'];

  it('publishes, then calls back', () => {
    const { one, said } = compiling(0);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...GOOD]);
    assert.equal(one.snapshot, SNAPSHOT);
  });

  it('retries once from scratch after an internal error', () => {
    const { one, said } = compiling(1);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...FAULT, ...GOOD]);
  });

  it('keeps the published state after two internal errors, and continues with the next snapshot', () => {
    const { one, said } = compiling(2);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said.splice(0), ['problems', ...FAULT, ...FAULT]);
    assert.equal(one.snapshot, null);
    one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...GOOD]);
  });
});
