import assert from 'node:assert/strict';
import type { NftError, RouteEvent } from 'nftables-napi';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { watchLinks } from './link-watch.ts';

const ADDRESS: RouteEvent = {
  event: 'present',
  object: { kind: 'address' } as Extract<RouteEvent, { event: 'present' }>['object'],
};
const OVERRUN: RouteEvent = { event: 'overrun' };
const FAILED: RouteEvent = { event: 'error', error: new Error('ENETDOWN') as NftError };

function watched() {
  const clock = fakeClock();
  const lines: string[] = [];
  const troubles: string[] = [];
  const seen = { open: 0, happened: 0, missed: 0, refuses: false };
  let tell = (_: readonly RouteEvent[]): void => {};
  const line = (message: string) => void lines.push(message);
  const one = watchLinks({
    name: 'addresses',
    node: 'n',
    log: { info: line, error: line } as unknown as Log,
    metrics: { monitor: (name, trouble) => void troubles.push(`${name} ${trouble}`) },
    clock,
    open(listener) {
      if (seen.refuses) throw new Error('EMFILE');
      seen.open++;
      tell = listener;
      return { close: () => void seen.open-- };
    },
    meanwhile: 'changes are found once a minute',
    happened: () => void seen.happened++,
    missed: () => void seen.missed++,
  });
  return { clock, lines, troubles, seen, one, tell: (...events: RouteEvent[]) => tell(events) };
}

describe('watchLinks', () => {
  it('opens a monitor that failed again, reads everything then, and reports it', async () => {
    const { clock, lines, troubles, seen, one, tell } = watched();
    tell(ADDRESS, FAILED);
    assert.deepEqual([seen.open, seen.happened, seen.missed], [0, 1, 0]);
    seen.refuses = true;
    clock.pass(1_000);
    seen.refuses = false;
    clock.pass(2_000);
    assert.deepEqual([seen.open, seen.missed], [1, 1]);
    assert.deepEqual(troubles, ['addresses failed', 'addresses failed']);
    assert.deepEqual(lines, [
      'cannot watch the addresses of this machine; changes are found once a minute, opening the monitor again',
      'cannot watch the addresses of this machine; changes are found once a minute, opening the monitor again',
      'watching again; reading everything',
    ]);
    await one.close();
    assert.deepEqual([seen.open, clock.waiting()], [0, []]);
  });

  it('reads everything once a second during a storm of lost events, and after its end', () => {
    const { clock, troubles, seen, tell } = watched();
    for (let i = 0; i < 1_000; i++) {
      tell(OVERRUN);
      clock.pass(10);
    }
    clock.pass(1_000);
    assert.equal(troubles.length, 1_000);
    assert(seen.missed >= 10 && seen.missed <= 11, `${seen.missed}`);
  });
});
