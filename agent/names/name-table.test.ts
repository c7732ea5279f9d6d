import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Address, formatAddress } from '../../lib/net/address.ts';
import type { AddressRecord, FamilyAnswer, Resolution } from './name-entry.ts';
import { clampTTL, KnownNames, NAME_LIMITS, type NameLimits } from './name-table.ts';

const TIMES = { minimumTTL: 5, maximumTTL: 3600, keep: 300, stale: 86_400 };
const SECOND = 1000;
const NONE: FamilyAnswer = { kind: 'none', reason: 'ENODATA' };
const FAILED: FamilyAnswer = { kind: 'failed', reason: 'ETIMEOUT' };
const NOTHING: Resolution = { 4: { kind: 'none', reason: 'ENOTFOUND' }, 6: NONE };
const TIMEOUT: Resolution = { 4: FAILED, 6: FAILED };

function records(ttl: number, ...addresses: readonly string[]): AddressRecord[] {
  return addresses.map((address) => ({ address, ttl }));
}
function v4(ttl: number, ...addresses: readonly string[]): Resolution {
  return { 4: { kind: 'addresses', records: records(ttl, ...addresses) }, 6: NONE };
}

function known(
  peers: readonly string[],
  limits: Partial<NameLimits> = {},
  reserved: (address: Address) => boolean = () => false,
) {
  const said: string[] = [];
  const table = new KnownNames({
    times: TIMES,
    limits: { ...NAME_LIMITS, ...limits },
    reserved,
    reports: {
      failing: (name, reason, addresses) => said.push(`${name} fails: ${reason}, ${addresses} stay`),
      givenUp: (name) => said.push(`${name} given up`),
      resolvesAgain: (name) => said.push(`${name} again`),
      full: (what, name) => said.push(`full: ${what}: ${name}`),
      reserved: (name, address) => said.push(`reserved: ${name}: ${address}`),
    },
  });
  table.want(peers);
  return { table, said };
}

describe('KnownNames', () => {
  it('stores the addresses of a name sorted, once each, in canonical form', () => {
    const { table } = known(['a.test']);
    table.resolved(
      'a.test',
      {
        4: { kind: 'addresses', records: records(60, '192.0.2.2', '192.0.2.1', '192.0.2.2') },
        6: {
          kind: 'addresses',
          records: records(60, '2001:DB8:0::1', '::ffff:192.0.2.3', 'undefined.1', ''),
        },
      },
      0,
    );
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.1', '192.0.2.2', '192.0.2.3', '2001:db8::1']);
    assert.deepEqual(table.addresses('b.test'), []);
  });

  it('gives reserved addresses to names that a policy writes out only', () => {
    let api = '192.0.2.1';
    const { table, said } = known(['a.test', '*.a.test'], {}, (address) => formatAddress(address) === api);
    table.learnt('x.a.test', records(60, '192.0.2.1', '::ffff:192.0.2.1', '192.0.2.2'), 0);
    table.learnt('a.test', records(60, '192.0.2.1'), 0);
    table.resolved('a.test', v4(60, '192.0.2.1'), 0);
    assert.deepEqual(table.addresses('*.a.test'), ['192.0.2.2']);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.1']);
    assert.deepEqual(said, ['reserved: x.a.test: 192.0.2.1']);
    // An address that becomes the API server's is removed, also from a restored or renamed entry.
    const saved = table.toSaved(0);
    api = '192.0.2.2';
    table.sweep(0);
    assert.deepEqual(table.addresses('*.a.test'), []);
    const { table: next } = known(['*.a.test'], {}, (address) => formatAddress(address) === api);
    next.fromSaved(saved, 0);
    assert.deepEqual(next.addresses('*.a.test'), []);
    const { table: other } = known(['x.a.test'], {}, (address) => formatAddress(address) === '192.0.2.9');
    other.resolved('x.a.test', v4(60, '192.0.2.9'), 0);
    other.want(['*.a.test']);
    assert.deepEqual(other.addresses('*.a.test'), []);
  });

  it('keeps an address until its TTL has ended and no answer has had it for the minimum time', () => {
    const { table } = known(['a.test']);
    table.resolved('a.test', v4(10, '192.0.2.1'), 0);
    table.resolved('a.test', v4(1000, '192.0.2.2'), 10 * SECOND);
    table.learnt('a.test', records(10, '192.0.2.3'), 20 * SECOND);
    table.resolved('a.test', v4(1000, '192.0.2.4'), 30 * SECOND);
    assert.equal(table.sweep(299 * SECOND), 300 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4']);
    // `keep` ends: last seen at 0.
    assert.equal(table.sweep(300 * SECOND), 320 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.2', '192.0.2.3', '192.0.2.4']);
    assert.equal(table.sweep(320 * SECOND), 1010 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.2', '192.0.2.4']);
    table.sweep(1010 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.4']);
  });

  it('keeps the addresses of the last answer until the next one arrives', () => {
    const { table } = known(['a.test']);
    table.resolved('a.test', v4(10, '192.0.2.1'), 0);
    table.sweep(310 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.1']);
    table.resolved('a.test', v4(10, '192.0.2.2'), 320 * SECOND);
    table.sweep(320 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.2']);
  });

  it('keeps the last addresses of a name that stops resolving, logs it once, and removes them after the limit', () => {
    const { table, said } = known(['a.test']);
    table.resolved('a.test', v4(10, '192.0.2.1'), 0);
    for (const at of [10, 20, 1000]) table.resolved('a.test', at === 20 ? NOTHING : TIMEOUT, at * SECOND);
    assert.equal(table.sweep(86_399 * SECOND), 86_400 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.1']);
    assert.deepEqual(said, ['a.test fails: ETIMEOUT, 1 stay']);
    table.sweep(86_400 * SECOND);
    assert.deepEqual(table.addresses('a.test'), []);
    table.resolved('a.test', TIMEOUT, 86_410 * SECOND);
    table.resolved('a.test', v4(10, '192.0.2.9'), 86_420 * SECOND);
    assert.deepEqual(said.slice(1), ['a.test given up', 'a.test again']);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.9']);
  });

  it('removes stale addresses as soon as the name resolves to others', () => {
    const { table } = known(['a.test']);
    table.resolved('a.test', v4(10, '192.0.2.1'), 0);
    table.resolved('a.test', TIMEOUT, 1000 * SECOND);
    table.resolved('a.test', v4(10, '192.0.2.2'), 2000 * SECOND);
    table.sweep(2000 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.2']);
  });

  it('distinguishes a family that fails from one without addresses', () => {
    const both: Resolution = {
      4: { kind: 'addresses', records: records(10, '192.0.2.1') },
      6: { kind: 'addresses', records: records(10, '2001:db8::1') },
    };
    const left = (six: FamilyAnswer) => {
      const { table, said } = known(['a.test']);
      table.resolved('a.test', both, 0);
      table.resolved('a.test', { ...both, 6: six }, 200 * SECOND);
      table.sweep(400 * SECOND);
      assert.deepEqual(said, []);
      return table.addresses('a.test');
    };
    assert.deepEqual(left(NONE), ['192.0.2.1']);
    assert.deepEqual(left(FAILED), ['192.0.2.1', '2001:db8::1']);
  });

  it('unites the addresses of all names that a wildcard matches, resolved ones too', () => {
    const { table } = known(['*.a.test', 'x.a.test']);
    table.learnt('y.z.a.test', records(10, '192.0.2.1', '192.0.2.2'), 0);
    table.resolved('x.a.test', v4(10, '192.0.2.2', '192.0.2.3'), 0);
    for (const other of ['a.test', 'xa.test', 'x.b.test', 'a.test.evil']) {
      table.learnt(other, records(10, '203.0.113.1'), 0);
      assert.equal(table.wants(other), false, other);
    }
    assert.deepEqual(table.addresses('*.a.test'), ['192.0.2.1', '192.0.2.2', '192.0.2.3']);
    assert.deepEqual(table.addresses('x.a.test'), ['192.0.2.2', '192.0.2.3']);
    // The agent does not query names that only a wildcard matches.
    table.sweep(300 * SECOND);
    assert.deepEqual(table.addresses('*.a.test'), ['192.0.2.2', '192.0.2.3']);
    assert.deepEqual(
      table.toSaved(300 * SECOND).map(({ name }) => name),
      ['x.a.test'],
    );
  });

  it('reports a change once, and returns the same array without a change', () => {
    const { table } = known(['*.a.test']);
    table.consumeChange();
    table.learnt('x.a.test', records(10, '192.0.2.1'), 0);
    assert.equal(table.consumeChange(), true);
    assert.equal(table.consumeChange(), false);
    const before = table.addresses('*.a.test');
    table.learnt('y.a.test', records(10, '192.0.2.1'), 1);
    assert.equal(table.consumeChange(), false);
    assert.equal(table.addresses('*.a.test'), before);
  });

  it('forgets unwanted names, and keeps those that a wildcard matches', () => {
    const { table, said } = known(['x.a.test', 'x.b.test']);
    table.resolved('x.a.test', v4(10, '192.0.2.1'), 0);
    table.resolved('x.b.test', v4(10, '192.0.2.2'), 0);
    table.resolved('x.a.test', TIMEOUT, SECOND);
    table.want(['*.a.test']);
    assert.deepEqual(table.addresses('*.a.test'), ['192.0.2.1']);
    assert.deepEqual(table.addresses('x.b.test'), []);
    table.want(['*.a.test', 'x.b.test']);
    assert.deepEqual(table.addresses('x.b.test'), []);
    // The agent no longer queries the name, so it is not reported as given up.
    table.sweep(300 * SECOND);
    assert.deepEqual(table.addresses('*.a.test'), []);
    assert.deepEqual(said, ['x.a.test fails: ETIMEOUT, 1 stay']);
  });

  it('clamps TTLs to the configured limits', () => {
    for (const [ttl, seconds] of [
      [0, 5],
      [4, 5],
      [60, 60],
      [3601, 3600],
      [2 ** 31 - 1, 3600],
      [2 ** 31, 5],
      [2 ** 32 - 1, 5],
      [-1, 5],
      [Number.NaN, 5],
    ] as const) {
      assert.equal(clampTTL(ttl, TIMES), seconds, String(ttl));
    }
  });

  it('limits the addresses of a name: those that only `keep` retains are removed first, those within their TTL stay', () => {
    const { table, said } = known(['a.test'], { addressesOfName: 2 });
    table.resolved('a.test', v4(10, '192.0.2.1', '192.0.2.2', '192.0.2.3'), 0);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.1', '192.0.2.2']);
    table.learnt('a.test', records(10, '192.0.2.4'), 9 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.1', '192.0.2.2']);
    table.resolved('a.test', v4(10, '192.0.2.2', '192.0.2.5'), 11 * SECOND);
    assert.deepEqual(table.addresses('a.test'), ['192.0.2.2', '192.0.2.5']);
    assert.deepEqual(said, ['full: addressesOfName: a.test']);
  });

  it('limits the addresses of all names together', () => {
    const { table, said } = known(['*.a.test', 'b.test'], {
      learntNames: 3,
      learntAddresses: 4,
      addresses: 2,
    });
    for (let i = 1; i <= 5; i++) table.learnt(`n${i}.a.test`, records(10, `192.0.2.${i}`), i);
    assert.deepEqual(table.addresses('*.a.test'), ['192.0.2.3', '192.0.2.4', '192.0.2.5']);
    table.learnt('n5.a.test', records(10, '192.0.2.6', '192.0.2.7'), 6);
    assert.deepEqual(table.addresses('*.a.test'), ['192.0.2.4', '192.0.2.5', '192.0.2.6', '192.0.2.7']);
    table.resolved('b.test', v4(10, '203.0.113.1', '203.0.113.2', '203.0.113.3'), 7);
    assert.deepEqual(table.addresses('b.test'), ['203.0.113.1', '203.0.113.2']);
    assert.deepEqual(said, [
      'full: learntNames: n1.a.test',
      'full: learntAddresses: n3.a.test',
      'full: addresses: b.test',
    ]);
  });

  describe('after a restart', () => {
    function restarted(down: number, peers = ['a.test', '*.b.test']) {
      const first = known(['a.test', '*.b.test', 'c.test']);
      for (const name of ['a.test', 'c.test']) first.table.resolved(name, v4(10, '192.0.2.1'), 0);
      first.table.learnt('x.b.test', records(10, '192.0.2.2'), 0);
      const saved = first.table.toSaved(5 * SECOND);
      assert.deepEqual(
        saved.map(({ name, addresses }) => [name, addresses[0]?.source, addresses[0]?.state]),
        [
          ['a.test', 'resolved', 'fresh'],
          ['c.test', 'resolved', 'fresh'],
          ['x.b.test', 'learnt', 'fresh'],
        ],
      );
      const second = known(peers);
      second.table.fromSaved(saved, down * SECOND);
      return second;
    }
    it('has the saved addresses of wanted names', () => {
      const { table } = restarted(1000);
      assert.deepEqual(table.addresses('a.test'), ['192.0.2.1']);
      assert.deepEqual(table.addresses('*.b.test'), ['192.0.2.2']);
      assert.deepEqual(
        table.toSaved(1000 * SECOND).map(({ name }) => name),
        ['a.test', 'x.b.test'],
      );
    });
    it('keeps learnt addresses for `keep` seconds, because answers in between are unknown', () => {
      const { table } = restarted(1000);
      table.sweep(1299 * SECOND);
      assert.deepEqual(table.addresses('*.b.test'), ['192.0.2.2']);
      table.sweep(1300 * SECOND);
      assert.deepEqual(table.addresses('*.b.test'), []);
    });
    it('keeps resolved addresses until an answer, or until they are too old', () => {
      const { table } = restarted(1000);
      table.sweep(80_000 * SECOND);
      assert.deepEqual(table.addresses('a.test'), ['192.0.2.1']);
      table.resolved('a.test', v4(10, '192.0.2.9'), 80_000 * SECOND);
      table.sweep(80_000 * SECOND);
      assert.deepEqual(table.addresses('a.test'), ['192.0.2.9']);
    });
    it('removes addresses older than `stale`', () => {
      assert.deepEqual(restarted(86_400).table.addresses('a.test'), []);
    });
    it('handles a clock that was set back', () => {
      const { table } = restarted(-10_000_000);
      table.resolved('a.test', v4(10, '192.0.2.9'), -10_000_000 * SECOND);
      table.sweep((-10_000_000 + 3600) * SECOND);
      assert.deepEqual(table.addresses('a.test'), ['192.0.2.9']);
    });
  });

  it('is bounded and consistent after any sequence of answers', () => {
    const name = fc.constantFrom('a.test', 'b.test', 'x.w.test', 'y.w.test', 'z.x.w.test', 'other.test');
    const address = fc.oneof(
      fc.integer({ min: 0, max: 40 }).map((n) => `192.0.2.${n}`),
      fc.integer({ min: 0, max: 9 }).map((n) => `2001:db8::${n}`),
      fc.constant('garbage'),
    );
    const ttl = fc.oneof(fc.integer({ min: 0, max: 400 }), fc.constantFrom(-1, 2 ** 31 - 1, 2 ** 32 - 1));
    const answer = fc.oneof(
      fc
        .array(fc.record({ address, ttl }), { minLength: 1 })
        .map((all): FamilyAnswer => ({ kind: 'addresses', records: all })),
      fc.constantFrom(NONE, FAILED),
    );
    const step = fc.oneof(
      fc.record({ kind: fc.constant('resolved' as const), name, four: answer, six: answer }),
      fc.record({
        kind: fc.constant('learnt' as const),
        name,
        records: fc.array(fc.record({ address, ttl })),
      }),
      fc.record({ kind: fc.constant('pass' as const), seconds: fc.integer({ min: 0, max: 50_000 }) }),
      fc.record({
        kind: fc.constant('want' as const),
        peers: fc.subarray(['a.test', 'b.test', '*.w.test', '*.x.w.test']),
      }),
      fc.record({ kind: fc.constant('restart' as const) }),
    );
    const limits = { addressesOfName: 5, learntNames: 2, learntAddresses: 7, addresses: 8 };
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let peers = ['a.test', '*.w.test'];
        let { table } = known(peers, limits);
        let now = 0;
        for (const one of steps) {
          if (one.kind === 'resolved') table.resolved(one.name, { 4: one.four, 6: one.six }, now);
          if (one.kind === 'learnt') table.learnt(one.name, one.records, now);
          if (one.kind === 'pass') now += one.seconds * SECOND;
          if (one.kind === 'want') {
            peers = one.peers;
            table.want(peers);
          }
          if (one.kind === 'restart') {
            const saved = table.toSaved(now);
            table = known(peers, limits).table;
            table.fromSaved(saved, now);
          }
          const next = table.sweep(now);
          assert(next === null || next > now);
          const changed = peers.map((peer) => table.addresses(peer).join());
          table.consumeChange();
          assert.deepEqual(
            peers.map((peer) => table.addresses(peer).join()),
            changed,
          );
          assert.equal(table.consumeChange(), false);
          const saved = table.toSaved(now);
          const all = saved.map(({ addresses }) => addresses.length);
          const literal = saved.filter((entry) => peers.includes(entry.name));
          const learnt = saved.filter((entry) => !peers.includes(entry.name));
          const sum = (entries: typeof saved) =>
            entries.reduce((n, { addresses }) => n + addresses.length, 0);
          assert(all.every((count) => count > 0 && count <= 5));
          assert(sum(literal) <= 8 + 5, `${sum(literal)} of names that are written out`);
          assert(learnt.length <= 2 && sum(learnt) <= 7);
          for (const { addresses } of saved)
            for (const { seen } of addresses) assert(now - seen < (TIMES.stale + TIMES.keep) * SECOND + 1);
        }
        // Without further answers, nothing stays forever.
        table.sweep(now + 100_000 * SECOND);
        assert.deepEqual(table.toSaved(now), []);
      }),
    );
  });
});
