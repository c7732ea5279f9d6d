import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import type { Resolution } from './name-entry.ts';
import { Resolver } from './resolver.ts';

const TIMES = { minimumTTL: 5, maximumTTL: 3600, keep: 300, stale: 86_400 };

function answer(ttl: number): Resolution {
  return {
    4: { kind: 'addresses', records: [{ address: '192.0.2.1', ttl: 500 }] },
    6: { kind: 'addresses', records: [{ address: '2001:db8::1', ttl }] },
  };
}
const FAILED: Resolution = {
  4: { kind: 'failed', reason: 'ETIMEOUT' },
  6: { kind: 'none', reason: 'ENODATA' },
};

/** A resolver whose answers arrive when the test sends them. */
function started(random = 0) {
  const clock = fakeClock();
  const asked: string[] = [];
  const told: string[] = [];
  const open = new Map<string, (resolution: Resolution) => void>();
  let closed = false;
  const running = new Resolver({
    clock,
    times: TIMES,
    random: () => random,
    lookup: {
      resolve(name) {
        asked.push(name);
        return new Promise((resolve) => open.set(name, resolve));
      },
      close() {
        closed = true;
      },
    },
    resolved: (name) => told.push(name),
  });
  return {
    running,
    clock,
    asked,
    told,
    isClosed: () => closed,
    async pass(milliseconds: number) {
      clock.pass(milliseconds);
      await turn();
    },
    async reply(name: string, resolution: Resolution) {
      open.get(name)?.(resolution);
      await turn();
    },
  };
}

describe('resolver', () => {
  it('asks at once, and again when the shortest TTL has ended', async () => {
    const { running, asked, told, pass, reply } = started();
    running.want(['a.test']);
    await pass(0);
    await reply('a.test', answer(30));
    await pass(29_999);
    assert.deepEqual(asked, ['a.test']);
    await pass(1);
    assert.deepEqual(asked, ['a.test', 'a.test']);
    assert.deepEqual(told, ['a.test']);
  });

  it('keeps the intervals between queries within limits, and spreads queries over time', async () => {
    for (const [ttl, random, seconds] of [
      [0, 0, 5],
      [2 ** 32 - 1, 0, 5],
      [100, 0.5, 105],
      [2 ** 31 - 1, 0, 3600],
      [2 ** 31 - 1, 0.5, 3420],
    ] as const) {
      const { running, clock, pass, reply } = started(random);
      running.want(['a.test']);
      await pass(0);
      await reply('a.test', {
        4: { kind: 'addresses', records: [{ address: '192.0.2.1', ttl }] },
        6: { kind: 'none', reason: '' },
      });
      assert.deepEqual(clock.waiting(), [seconds * 1000], `TTL ${ttl}`);
    }
  });

  it('retries after a failure with back-off, and as usual once it works', async () => {
    const { running, clock, pass, reply } = started();
    running.want(['a.test']);
    await pass(0);
    for (const seconds of [5, 10, 20, 40, 60, 60]) {
      await reply('a.test', FAILED);
      assert.deepEqual(clock.waiting(), [seconds * 1000]);
      await pass(seconds * 1000);
    }
    await reply('a.test', answer(30));
    await pass(30_000);
    await reply('a.test', FAILED);
    assert.deepEqual(clock.waiting(), [5000]);
  });

  it('sends at most a hundred queries at once; names without an answer do not block others', async () => {
    const { running, asked, pass, reply } = started();
    const names = Array.from({ length: 250 }, (_, i) => `n${i}.test`);
    running.want(names);
    await pass(0);
    assert.equal(asked.length, 100);
    for (const name of names.slice(0, 100)) await reply(name, FAILED);
    await pass(100);
    assert.equal(asked.length, 200);
    // The names that failed are due again, but the others have waited longer.
    await pass(60_000);
    for (const name of names.slice(100, 200)) await reply(name, FAILED);
    await pass(100);
    assert.deepEqual(asked.slice(200, 250), names.slice(200));
  });

  it('forgets unwanted names, and ignores their answers', async () => {
    const { running, clock, asked, told, pass, reply } = started();
    running.want(['a.test', 'b.test']);
    await pass(0);
    running.want(['b.test']);
    await reply('a.test', answer(30));
    await reply('b.test', answer(30));
    assert.deepEqual(told, ['b.test']);
    running.want([]);
    assert.deepEqual(clock.waiting(), []);
    assert.deepEqual(asked, ['a.test', 'b.test']);
  });

  it('is settled once every name was asked for, with any result', async () => {
    const { running, pass, reply } = started();
    let settled = false;
    running.want(['a.test', 'b.test']);
    void running.settled().then(() => {
      settled = true;
    });
    await pass(0);
    await reply('a.test', FAILED);
    assert.equal(settled, false);
    await reply('b.test', answer(30));
    assert.equal(settled, true);
    await running.settled();
  });

  it('leaves nothing behind when closed', async () => {
    const { running, clock, told, pass, reply, isClosed } = started();
    running.want(['a.test']);
    await pass(0);
    const settled = running.settled();
    running.close();
    await settled;
    await reply('a.test', answer(30));
    assert.deepEqual([clock.waiting(), told, isClosed()], [[], [], true]);
  });
});
