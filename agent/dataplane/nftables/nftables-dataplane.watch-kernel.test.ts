import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { MonitorEvent, NftError } from 'nftables-napi';
import type { Log } from '../../../lib/process/log.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { watchKernel } from './nftables-dataplane.ts';

const OVERRUN: MonitorEvent = { kind: 'overrun' };
const FAILED: MonitorEvent = { kind: 'error', error: new Error('ENETDOWN') as NftError };
const change = (generation: number): MonitorEvent => {
  return { kind: 'change', generation, processName: 'nft' };
};

describe('watchKernel', () => {
  let stop: () => Promise<void>;
  afterEach(() => stop());

  function watched() {
    const clock = fakeClock();
    const seen = { open: 0, verified: 0, invalidated: 0, troubles: [] as string[], lines: [] as string[] };
    let tell = (_: MonitorEvent): void => {};
    const line = (message: string) => void seen.lines.push(message);
    stop = watchKernel({
      reconciler: { isOwn: (generation) => generation === 7, invalidate: () => void seen.invalidated++ },
      enforcer: { idle: async () => {}, verify: () => void seen.verified++ },
      quietSets: [],
      log: { debug: () => {}, info: line, error: line } as unknown as Log,
      clock,
      troubled: (trouble) => void seen.troubles.push(trouble),
      open(listener) {
        seen.open++;
        tell = listener;
        return { close: () => void seen.open-- };
      },
    });
    return { clock, seen, tell: (event: MonitorEvent) => tell(event) };
  }

  it('compares after each foreign change, not after its own', async () => {
    const { seen, tell } = watched();
    tell(change(7));
    tell(change(8));
    await turn();
    assert.deepEqual([seen.verified, seen.invalidated], [1, 0]);
  });

  it('opens a monitor that failed again, and then compares everything', async () => {
    const { clock, seen, tell } = watched();
    tell(FAILED);
    assert.equal(seen.open, 0);
    clock.pass(1_000);
    await turn();
    assert.deepEqual([seen.open, seen.verified, seen.invalidated], [1, 1, 1]);
    assert.deepEqual(seen.troubles, ['failed']);
    assert.match(seen.lines.join('\n'), /monitor failed.*\nwatching the table inet nodewall again/);
    tell(change(9));
    await turn();
    assert.equal(seen.verified, 2);
  });

  it('compares once a second during a storm of lost events', async () => {
    const { clock, seen, tell } = watched();
    for (let i = 0; i < 1_000; i++) {
      tell(OVERRUN);
      clock.pass(10);
    }
    clock.pass(1_000);
    await turn();
    assert(seen.verified >= 10 && seen.verified <= 11, `${seen.verified}`);
    assert.equal(seen.invalidated, seen.verified);
    assert.equal(seen.troubles.length, 1_000);
  });
});
