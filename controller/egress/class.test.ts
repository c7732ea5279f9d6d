import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { EgressPolicy } from '../../apis/egress/objects.ts';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { hasInterval } from '../../lib/net/range-index.ts';
import { fakePolicy as policy } from '../../test/fake/egress-objects.ts';
import { flatten } from './class.ts';
import { destinationsOf } from './segments.ts';

/** The ranges of IPv4, with the names of the policies. */
function ranges(policies: readonly EgressPolicy[]): string[] {
  const { class: flat, decisions } = flatten(policies);
  return flat.ipv4.map(({ range, outcome }) => {
    const ends = [range.first, range.last].map((value) => formatAddress({ family: 4, value })).join('-');
    const decision = decisions.find(({ id }) => id === outcome);
    const names = [...(decision?.audited ?? []).map(({ name }) => `(${name})`), decision?.policy?.name];
    return `${ends} ${names.join(' ')}`.trimEnd();
  });
}

describe('a class of policies', () => {
  it('has disjoint destinations, in each the first policy decides', () => {
    const policies = [
      policy('a', { to: ['10.0.0.0/24', '10.0.2.0/24'] }),
      policy('w', { to: ['10.0.1.0/24'], mode: 'Audit' }),
      policy('b', { to: ['10.0.0.0/22'], except: ['10.0.3.0/25'] }),
      policy('v', { to: ['10.0.4.0/24'], mode: 'Audit' }),
    ];
    assert.deepEqual(ranges(policies), [
      '10.0.0.0-10.0.0.255 a',
      '10.0.1.0-10.0.1.255 (w) b',
      '10.0.2.0-10.0.2.255 a',
      '10.0.3.128-10.0.3.255 b',
      '10.0.4.0-10.0.4.255 (v)',
    ]);
  });

  it('joins adjacent destinations of one outcome, and has all of both families without `to`', () => {
    const policies = [policy('a', { to: ['10.0.0.0/24', '10.0.1.0/24'] }), policy('b')];
    assert.deepEqual(ranges(policies), [
      '0.0.0.0-9.255.255.255 b',
      '10.0.0.0-10.0.1.255 a',
      '10.0.2.0-255.255.255.255 b',
    ]);
    assert.deepEqual(
      flatten(policies).class.ipv6.map(({ range }) => range),
      [{ first: 0n, last: (1n << 128n) - 1n }],
    );
  });

  it('decides as the policies one after another', () => {
    const cidr = fc
      .tuple(fc.nat(255), fc.integer({ min: 22, max: 32 }))
      .map(([n, length]) => `10.0.${n % 8}.${n}/${length}`);
    const drawn = fc.record({
      to: fc.array(cidr, { minLength: 1, maxLength: 4 }),
      except: fc.array(cidr, { maxLength: 2 }),
      mode: fc.constantFrom('Enforce' as const, 'Audit' as const),
    });
    fc.assert(
      fc.property(
        fc.array(drawn, { maxLength: 6 }),
        fc.array(fc.nat(0x7ff), { maxLength: 40 }),
        (specs, hosts) => {
          const policies = specs.map((spec, i) => policy(`p${i}`, spec));
          const { class: flat, decisions } = flatten(policies);
          for (const host of hosts) {
            const value = (parseAddress('10.0.0.0')?.value ?? 0n) + BigInt(host);
            const matching = policies.filter((one) => hasInterval(destinationsOf(one)[4], value));
            const decided = matching.findIndex(({ spec }) => spec.mode === 'Enforce');
            const outcome = flat.ipv4.find(
              ({ range }) => range.first <= value && value <= range.last,
            )?.outcome;
            const decision = decisions.find(({ id }) => id === outcome);
            assert.equal(decision?.policy ?? null, matching[decided] ?? null);
            assert.deepEqual(decision?.audited ?? [], decided < 0 ? matching : matching.slice(0, decided));
          }
        },
      ),
    );
  });
});
