import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { ComeBack } from './come-back.ts';

describe('an agent that is on again while no controller answers', () => {
  const clock = fakeClock();
  let overs = 0;
  const comeBack = new ComeBack(clock, () => overs++);

  it('waits for what the cluster wants now, and not for ever', () => {
    comeBack.begin();
    clock.pass(59_999);
    assert.ok(comeBack.isWaiting);
    assert.equal(overs, 0);
    clock.pass(1);
    assert.ok(!comeBack.isWaiting);
    assert.equal(overs, 1);
  });

  it('waits no longer once that was heard', () => {
    comeBack.begin();
    assert.ok(comeBack.end());
    assert.ok(!comeBack.end());
    clock.pass(60_000);
    assert.equal(overs, 1);
  });
});
