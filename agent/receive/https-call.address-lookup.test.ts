import assert from 'node:assert/strict';
import type { LookupAddress, lookup } from 'node:dns';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { lookupOrLast } from './https-call.ts';

type Answer = (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void;

describe("the lookup of the controller's name", () => {
  const NOW = { address: '10.96.0.9', family: 4 };
  const LAST = { address: '10.96.0.7', family: 4 };
  const AWAY = Object.assign(new Error('getaddrinfo EAI_AGAIN'), { code: 'EAI_AGAIN' });
  let clock: FakeClock;
  let system: Answer;
  let heard: unknown[];

  function ask(last: readonly string[], options: object = { all: true }): void {
    heard = [];
    const resolve = ((_name: string, _options: object, answer: Answer) => {
      system = answer;
    }) as unknown as typeof lookup;
    lookupOrLast(() => last, clock, resolve)('controller', options, (error, found) => {
      heard.push(error ?? found);
    });
  }

  beforeEach(() => {
    clock = fakeClock();
  });

  it("returns the system's answer", () => {
    ask([LAST.address]);
    system(null, [NOW]);
    clock.pass(60_000);
    assert.deepEqual(heard, [[NOW]]);
  });

  it('returns the last addresses if the system knows none', () => {
    ask([LAST.address]);
    system(AWAY, []);
    assert.deepEqual(heard, [[LAST]]);
  });

  it('returns the last addresses if the system takes long, and no second answer', () => {
    ask([LAST.address, 'fd00::7']);
    clock.pass(1_999);
    assert.deepEqual(heard, []);
    clock.pass(1);
    system(null, [NOW]);
    assert.deepEqual(heard, [[LAST, { address: 'fd00::7', family: 6 }]]);
  });

  it('waits for the system, and returns its error, if no address is known', () => {
    ask([]);
    clock.pass(60_000);
    assert.deepEqual(heard, []);
    system(AWAY, []);
    assert.deepEqual(heard, [AWAY]);
  });

  it('returns one address of the requested family', () => {
    ask(['fd00::7', LAST.address], { family: 4 });
    system(AWAY, []);
    assert.deepEqual(heard, [LAST.address]);
  });
});
