import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Address, type Cidr, isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { foldCidrs } from './role-peers.ts';

const cidrs = (...texts: readonly string[]): Cidr[] =>
  texts.flatMap(
    (text) => parseCidr(text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`)?.cidr ?? [],
  );
const addresses = (...texts: readonly string[]): Address[] =>
  texts.flatMap((text) => parseAddress(text) ?? []);

function fold(most: number, given: readonly string[], avoid: readonly string[] = []) {
  return foldCidrs(cidrs(...given), most, addresses(...avoid));
}

describe('few CIDRs', () => {
  it('are exact where there is room', () => {
    const { blocks, isWider } = fold(4, ['10.0.0.1', '10.0.0.2', '10.0.0.3', 'fd00::1']);
    assert.deepEqual(blocks, [{ cidr: '10.0.0.1/32' }, { cidr: '10.0.0.2/31' }, { cidr: 'fd00::1/128' }]);
    assert.equal(isWider, false);
  });

  it('join the nearest neighbours first', () => {
    const { blocks, isWider } = fold(2, ['10.0.0.1', '10.0.0.6', '10.9.0.1']);
    assert.deepEqual(blocks, [{ cidr: '10.0.0.0/29' }, { cidr: '10.9.0.1/32' }]);
    assert.equal(isWider, true);
  });

  it('except addresses of the review list', () => {
    const { blocks } = fold(1, ['10.0.0.1', '10.0.0.6'], ['10.0.0.5', '10.0.0.9']);
    assert.deepEqual(blocks, [{ cidr: '10.0.0.0/29', except: ['10.0.0.5/32'] }]);
    const many = Array.from({ length: 20 }, (_, i) => `10.0.0.${100 + i}`);
    assert.deepEqual(fold(1, ['10.0.0.1', '10.0.0.201'], many).blocks, [
      { cidr: '10.0.0.1/32' },
      { cidr: '10.0.0.201/32' },
    ]);
  });

  it('are more than asked for rather than wider than /8, and everything if they are everywhere', () => {
    assert.deepEqual(fold(1, ['10.0.0.1', '192.0.2.1']).blocks.length, 2);
    const everywhere = Array.from({ length: 40 }, (_, i) => `${1 + 5 * i}.0.0.1`);
    const { blocks, everything } = fold(4, everywhere, ['6.0.0.9']);
    assert.deepEqual([blocks, everything], [[{ cidr: '0.0.0.0/0', except: ['6.0.0.9/32'] }], [4]]);
  });

  it('cover every address that is given, and none that is to be avoided', () => {
    const address = fc.tuple(fc.nat(3), fc.nat(3), fc.nat(255)).map(([a, b, c]) => `10.${a}.${b}.${c}`);
    const drawn = fc.record({
      given: fc.uniqueArray(address, { minLength: 1, maxLength: 60 }),
      avoid: fc.uniqueArray(address, { maxLength: 30 }),
      most: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(drawn, ({ given, avoid: drawnAvoid, most }) => {
        const avoid = drawnAvoid.filter((one) => !given.includes(one));
        const { blocks } = fold(most, given, avoid);
        const covers = (one: Address): boolean =>
          blocks.some(
            ({ cidr, except = [] }) => isCovered(cidrs(cidr), one) && !isCovered(cidrs(...except), one),
          );
        assert.deepEqual(
          addresses(...given).filter((one) => !covers(one)),
          [],
        );
        assert.deepEqual(addresses(...avoid).filter(covers), []);
        if (avoid.length === 0) assert.ok(blocks.length <= most);
      }),
    );
  });
});
