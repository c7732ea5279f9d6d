import assert from 'node:assert/strict';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { ContactLog } from './agent-log.ts';

describe('ContactLog', () => {
  it('measures an outage by the monotonic clock: the wall clock may be stepped a day', () => {
    for (const day of [-86_400_000, 86_400_000]) {
      const time = fakeClock();
      let wall = 1_700_000_000_000;
      const lines: [string, object][] = [];
      const line = (message: string, fields: object) => void lines.push([message, fields]);
      const log = { debug: line, info: line, warn: line } as unknown as Log;
      const clock = { ...time, date: () => new Date(wall + time.now()) };
      const contact = new ContactLog({ node: 'n', controller: 'c', log, clock });
      contact.disconnected(new Error('away'), 1);
      const since = contact.awaySince();
      wall += day;
      time.pass(300_000);
      contact.disconnected(new Error('away'), 1);
      assert.equal(contact.awaySince(), since);
      assert.equal(lines.length, 2, 'said again after five minutes');
      time.pass(60_000);
      contact.bookmark('r.1');
      const [message, fields] = lines.at(-1) ?? [];
      assert.equal(message, 'the controller answers again');
      assert.equal((fields as { seconds: number }).seconds, 360);
    }
  });
});
