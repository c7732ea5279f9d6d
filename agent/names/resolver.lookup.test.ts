import assert from 'node:assert/strict';
import { type FakeDns, fakeDns } from '../../test/dns/server.ts';
import type { Zone } from '../../test/dns/zone.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import type { FamilyAnswer } from './name-entry.ts';
import { type Lookup, lookup } from './resolver.ts';

const many = Array.from({ length: 500 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
const ZONE: Zone = {
  'plain.test': { A: ['192.0.2.1', '192.0.2.2'], AAAA: ['2001:db8::1'], ttl: 7 },
  'v4.test': { A: ['192.0.2.1'] },
  'zero.test': { A: ['192.0.2.1'], ttl: 0 },
  'most.test': { A: ['192.0.2.1'], ttl: 2 ** 31 - 1 },
  'negative.test': { A: ['192.0.2.1'], ttl: -1 },
  'many.test': { A: many },
  'chain.test': { A: ['192.0.2.1'], chain: ['b.test', 'c.test', 'd.test'], shuffled: true },
  'loop.test': { chain: ['b.test', 'loop.test'] },
  'empty.test': {},
  'fails.test': { rcode: 'SERVFAIL' },
  'refused.test': { rcode: 'REFUSED' },
  'garbage.test': { garbage: true },
  'slow.test': { A: ['192.0.2.1'], delay: 300 },
  'silent.test': { silent: true },
  'id.test': { A: ['192.0.2.1'], wrongId: true },
};

describe('lookup', function () {
  this.timeout(60_000);
  let server: FakeDns;
  let names: Lookup;
  before(async () => {
    server = await fakeDns(ZONE);
    names = lookup([server.server], fakeClock());
  });
  after(async () => {
    names.close();
    await server.close();
  });

  const short = (answer: FamilyAnswer): string =>
    answer.kind === 'addresses'
      ? answer.records.map(({ address, ttl }) => `${address} ${ttl}`).join()
      : `${answer.kind} ${answer.reason}`;
  const ask = async (name: string) => {
    const found = await names.resolve(name);
    return [short(found[4]), short(found[6])];
  };

  for (const [name, v4, v6] of [
    ['plain.test', '192.0.2.1 7,192.0.2.2 7', '2001:db8::1 7'],
    ['v4.test', '192.0.2.1 30', 'none ENODATA'],
    ['zero.test', '192.0.2.1 0', 'none ENODATA'],
    ['most.test', '192.0.2.1 2147483647', 'none ENODATA'],
    ['negative.test', '192.0.2.1 4294967295', 'none ENODATA'],
    ['many.test', many.map((address) => `${address} 30`).join(), 'none ENODATA'],
    ['chain.test', '192.0.2.1 30', 'none ENODATA'],
    ['loop.test', 'none ENODATA', 'none ENODATA'],
    ['empty.test', 'none ENODATA', 'none ENODATA'],
    ['missing.test', 'none ENOTFOUND', 'none ENOTFOUND'],
    ['fails.test', 'failed ESERVFAIL', 'failed ESERVFAIL'],
    ['refused.test', 'failed EREFUSED', 'failed EREFUSED'],
    ['garbage.test', 'failed EBADRESP', 'failed EBADRESP'],
    ['slow.test', '192.0.2.1 30', 'none ENODATA'],
    ['silent.test', 'failed ETIMEOUT', 'failed ETIMEOUT'],
    ['id.test', 'failed ETIMEOUT', 'failed ETIMEOUT'],
    [`${'long.'.repeat(60)}test`, 'failed EBADNAME', 'failed EBADNAME'],
  ] as const) {
    it(`${name.slice(0, 20)}: ${v4.slice(0, 40)}`, async () => assert.deepEqual(await ask(name), [v4, v6]));
  }

  it('answers other names while one gets no answer, and ends at once when closed', async () => {
    const own = lookup([server.server], fakeClock());
    const silent = own.resolve('silent.test');
    assert.equal((await own.resolve('plain.test'))[4].kind, 'addresses');
    own.close();
    assert.deepEqual((await silent)[4], { kind: 'failed', reason: 'ECANCELLED' });
  });

  it('treats an invalid server address as a failure', async () => {
    const { 4: v4 } = await lookup(['nonsense'], fakeClock()).resolve('plain.test');
    assert.equal(v4.kind, 'failed');
  });
});
