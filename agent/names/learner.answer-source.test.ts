import assert from 'node:assert/strict';
import type { NflogBatch } from 'nftables-napi';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { type NflogAnswersOptions, nflogAnswers } from './learner.ts';

function opened() {
  const clock = fakeClock();
  const log: string[] = [];
  const line = (message: string) => log.push(message);
  const open: { listener: (batch: NflogBatch) => void; closed: boolean }[] = [];
  const options: object[] = [];
  let refused = false;
  const create: NonNullable<NflogAnswersOptions['create']> = (given, listener) => {
    if (refused) throw new Error('EBUSY');
    options.push(given);
    const one = { listener, closed: false };
    open.push(one);
    return {
      async close() {
        one.closed = true;
      },
    };
  };
  const batches: unknown[] = [];
  return {
    clock,
    log,
    open,
    options,
    batches,
    refuse(value: boolean) {
      refused = value;
    },
    start: () =>
      nflogAnswers({ group: 7412, clock, log: { info: line, warn: line, error: line }, create })((batch) =>
        batches.push(batch),
      ),
  };
}
const batch = (over: object = {}): NflogBatch => ({ packets: [], lost: 0, error: null, ...over }) as never;

describe('nflogAnswers', () => {
  it('asks for whole packets, one at a time', async () => {
    const { start, options, open, batches } = opened();
    const source = start();
    assert.deepEqual(options, [{ group: 7412, copyRange: 65_531, queueThreshold: 1 }]);
    open[0]?.listener(batch());
    open[0]?.listener(batch({ lost: 3 }));
    assert.equal(batches.length, 1);
    await source.close();
    assert.equal(open[0]?.closed, true);
  });

  it('retries when the group is not available, and logs it once', async () => {
    const { start, open, log, clock, refuse } = opened();
    refuse(true);
    const source = start();
    clock.pass(10_000);
    clock.pass(10_000);
    assert.equal(log.length, 1);
    refuse(false);
    clock.pass(10_000);
    assert.equal(open.length, 1);
    assert.match(log[1] ?? '', /again/);
    await source.close();
  });

  it('opens another listener after a failure, and none once it is closed', async () => {
    const { start, open, clock } = opened();
    const source = start();
    open[0]?.listener(batch({ error: new Error('ENETDOWN') }));
    assert.equal(open[0]?.closed, true);
    clock.pass(10_000);
    assert.equal(open.length, 2);
    open[1]?.listener(batch({ error: new Error('ENETDOWN') }));
    await source.close();
    assert.deepEqual(clock.waiting(), []);
  });
});
