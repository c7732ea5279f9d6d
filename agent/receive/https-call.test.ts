import assert from 'node:assert/strict';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { FetchedAuthorities } from './https-call.ts';

const pem = (name: string): string => `-----BEGIN CERTIFICATE-----\n${name}\n-----END CERTIFICATE-----\n`;
const settled = (): Promise<void> => new Promise(setImmediate);

describe('FetchedAuthorities', () => {
  let fetches: number;
  let answer: string | Error;
  let learned: string[];
  let clock: FakeClock;
  beforeEach(() => {
    fetches = 0;
    answer = pem('a');
    learned = [];
    clock = fakeClock();
  });

  const authorities = (remembered: string | null): FetchedAuthorities =>
    new FetchedAuthorities({
      origin: 'ConfigMap x',
      remembered,
      clock,
      async fetch() {
        fetches++;
        await settled();
        if (answer instanceof Error) throw answer;
        return answer;
      },
      learned: (certificates) => void learned.push(certificates),
    });

  it('are fetched once at first, for any number of callers', async () => {
    const one = authorities(null);
    assert.deepEqual(await Promise.all([one.read(), one.read()]), [pem('a'), pem('a')]);
    assert.equal(await one.read(), pem('a'));
    assert.equal(fetches, 1);
    assert.deepEqual(learned, [pem('a')]);
  });

  it('stay the same while the API server does not answer, then follow it', async () => {
    answer = new Error('no route');
    const one = authorities(pem('old'));
    assert.equal(await one.read(), pem('old'));
    await settled();
    answer = pem('a');
    assert.equal(await one.read(), pem('old'));
    await settled();
    await settled();
    assert.equal(await one.read(), pem('a'));
    assert.deepEqual(learned, [pem('a')]);
  });

  it('are fetched again after a certificate that they did not sign', async () => {
    const one = authorities(null);
    await one.read();
    answer = pem('b');
    assert.equal(await one.read(), pem('a'));
    one.refused();
    await one.read();
    await settled();
    await settled();
    assert.equal(await one.read(), pem('b'));
    assert.equal(fetches, 2);
  });

  it('are fetched again once a day', async () => {
    const one = authorities(null);
    await one.read();
    answer = pem('b');
    clock.pass(24 * 3_600_000 - 1);
    await one.read();
    assert.equal(fetches, 1);
    clock.pass(1);
    assert.equal(await one.read(), pem('a'), 'nobody waits for it');
    await settled();
    await settled();
    assert.equal(await one.read(), pem('b'));
    assert.equal(fetches, 2);
  });

  it('are missing without a ConfigMap, and text without a certificate is rejected', async () => {
    for (const nothing of [new Error('no route'), '', 'no PEM']) {
      answer = nothing;
      await assert.rejects(authorities(null).read(), /no route|ConfigMap x contains no certificate/);
    }
    answer = '';
    const one = authorities(pem('old'));
    await one.read();
    await settled();
    assert.equal(await one.read(), pem('old'));
    assert.deepEqual(learned, []);
  });
});
