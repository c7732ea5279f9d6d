import assert from 'node:assert/strict';
import { checkLimits, limitsInTheWay, type MachineLimits } from './limits.ts';

const ENOUGH: MachineLimits = { inotifyInstances: 1024, usedInstances: 20, memory: 8e9, disk: 50e9 };

describe('limits of the machine of a cluster', () => {
  it('are not in the way where there is enough', () => assert.deepEqual(limitsInTheWay(ENOUGH), []));

  for (const [name, less, expected] of [
    [
      'inotify',
      { inotifyInstances: 128, usedInstances: 90 },
      /max_user_instances is 128, of which about 90 .*sysctl -w/,
    ],
    ['memory', { memory: 1.26e9 }, /^1\.3 GB of memory are available; a cluster needs 3\.0 GB$/],
    ['disk', { disk: 0.5e9 }, /^0\.5 GB are free in .*\/nodewall; a cluster needs 2\.0 GB: free some/],
  ] as const)
    it(`are named with what to do: ${name}`, () => {
      const [problem = '', ...others] = limitsInTheWay({ ...ENOUGH, ...less });
      assert.match(problem, expected);
      assert.deepEqual(others, []);
    });

  it('are named all at once', () =>
    assert.equal(limitsInTheWay({ ...ENOUGH, inotifyInstances: 0, memory: 0, disk: 0 }).length, 3));

  it('of this machine are enough, and can be read', () => checkLimits());
});
