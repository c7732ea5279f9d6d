import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { nameReports } from './name-reports.ts';

describe('nameReports', () => {
  it('combines the events of a second into one line for each kind, and lists the first twenty names', () => {
    const clock = fakeClock();
    const lines: [string, string, object][] = [];
    const line = (level: string) => (message: string, fields: object) => lines.push([level, message, fields]);
    const reports = nameReports({ info: line('info'), warn: line('warn'), error: line('error') }, clock);
    for (let i = 0; i < 30; i++) reports.failing(`n${i}.test`, 'ETIMEOUT', 1);
    reports.failing('new.test', 'ENOTFOUND', 0);
    reports.resolvesAgain('a.test');
    reports.full('addressesOfName', 'b.test');
    assert.equal(lines.length, 0);
    clock.pass(1000);
    assert.deepEqual(
      lines.map(([level, message]) => `${level} ${message.slice(0, 30)}`),
      [
        'warn names no longer resolve; keepi',
        'warn names do not resolve; their fq',
        'info names resolve again',
        'warn names have more addresses than',
      ],
    );
    const [, , fields] = lines[0] ?? [];
    assert.partialDeepStrictEqual(fields, { stage: 'names', count: 30 });
    assert.match(JSON.stringify(fields), /"n0\.test: ETIMEOUT".*"n19\.test: ETIMEOUT"\]/);
    assert.partialDeepStrictEqual(lines[3]?.[2], { names: ['b.test'], limit: 1024 });
    reports.givenUp('a.test');
    reports.flush();
    assert.equal(lines.length, 5);
    assert.deepEqual(clock.waiting(), []);
  });
});
