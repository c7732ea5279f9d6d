import assert from 'node:assert/strict';
import { SILENCE } from '../../../apis/node-phase.ts';
import type { NodeReport } from '../../../apis/stream.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { HeardReports } from './heard-reports.ts';

const report = (node: string): NodeReport => ({ node }) as NodeReport;

describe('HeardReports', () => {
  it('has a silent agent’s last report, and forgets those of deleted nodes', () => {
    const clock = fakeClock();
    const heard = new HeardReports(clock);
    assert.equal(heard.receive(report('a')), undefined);
    heard.receive(report('gone'));
    clock.pass(SILENCE + 1);
    const first = report('new');
    heard.receive(first);
    assert.equal(heard.fresh('a'), undefined);
    assert.deepEqual(heard.last('a'), report('a'));
    heard.keep(new Set(['a']));
    assert.equal(heard.size, 2, 'a node that is not listed yet stays');
    assert.equal(heard.last('gone'), undefined);
    assert.equal(heard.receive(report('new')), first);
  });
});
