import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  covers,
  familyOf,
  formatAddress,
  formatCidr,
  lastAddress,
  parseAddress,
  parseCidr,
} from './address.ts';

const V4 = fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }).map((value) => ({ family: 4, value }) as const);
const V6 = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map((value) => ({ family: 6, value }) as const);

describe('address', () => {
  it('rejects text that other parsers read in several ways', () => {
    const bad = [
      '',
      '1.2.3',
      '1.2.3.4.5',
      '01.2.3.4',
      '256.1.1.1',
      '1.2.3.4 ',
      '0x1.2.3.4',
      '10',
      'fe80::1%eth0',
      ':::',
      'a::b::c',
      'host',
    ];
    for (const text of bad) assert.equal(parseAddress(text), null, text);
  });

  it('parses to its number', () => {
    assert.deepEqual(parseAddress('255.255.255.255'), { family: 4, value: 0xffffffffn });
    assert.deepEqual(parseAddress('128.0.0.1'), { family: 4, value: 0x80000001n });
    assert.deepEqual(parseAddress('::ffff:10.0.0.1'), { family: 6, value: 0xffff0a000001n });
    assert.deepEqual(parseAddress('2001:DB8::1'), { family: 6, value: (0x20010db8n << 96n) | 1n });
  });

  it('is the same number in every spelling', () => {
    const groups = fc.array(fc.oneof(fc.constant(0), fc.nat(0xffff)), { minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(
        groups,
        fc.nat(8),
        fc.nat(8),
        fc.boolean(),
        fc.boolean(),
        (all, at, many, isUpper, isDotted) => {
          const value = all.reduce((sum, group) => (sum << 16n) | BigInt(group), 0n);
          const text = spelled(all, { from: at, to: Math.min(8, at + many), isDotted });
          const address = parseAddress(isUpper ? text.toUpperCase() : text);
          assert.deepEqual(address, { family: 6, value }, text);
          assert.equal(familyOf(text), 6);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('is formatted as in RFC 5952', () => {
    const written = [
      '::',
      '::1',
      '2001:db8::1',
      '2001:db8:0:1:1:1:1:1',
      '2001:0:0:1::1',
      '1.2.3.4',
      '0.0.0.0',
    ];
    for (const text of written) assert.equal(formatAddress(parseAddress(text) ?? assert.fail(text)), text);
  });

  it('survives formatting and parsing', () => {
    fc.assert(
      fc.property(fc.oneof(V4, V6), (address) => {
        assert.deepEqual(parseAddress(formatAddress(address)), address);
        assert.equal(familyOf(formatAddress(address)), address.family);
      }),
    );
  });
});

/** Eight groups; with `::` if all from `from` up to `to` are zero. */
function spelled(
  groups: readonly number[],
  { from, to, isDotted }: { readonly from: number; readonly to: number; readonly isDotted: boolean },
): string {
  const [high = 0, low = 0] = groups.slice(6);
  const tail = isDotted ? [[high >> 8, high & 255, low >> 8, low & 255].join('.')] : null;
  const part = (begin: number, end: number): string[] => {
    const texts = groups.slice(begin, end).map((group) => group.toString(16));
    return tail !== null && end === 8 && begin <= 6 ? [...texts.slice(0, -2), ...tail] : texts;
  };
  const canShorten = to > from && groups.slice(from, to).every((group) => group === 0);
  if (!canShorten || (isDotted && to > 6)) return part(0, 8).join(':');
  return `${part(0, from).join(':')}::${part(to, 8).join(':')}`;
}

describe('cidr', () => {
  const cidr = (text: string) => parseCidr(text)?.cidr ?? assert.fail(text);

  it("requires a prefix length within the address's width", () => {
    for (const text of [
      '10.0.0.0',
      '10.0.0.0/',
      '10.0.0.0/33',
      '10.0.0.0/08',
      '10.0.0.0/-1',
      '::/129',
      '/8',
      'x/8',
      '10.0.0.0/8/8',
    ]) {
      assert.equal(parseCidr(text), null, text);
    }
  });

  it('masks host bits, and reports it', () => {
    assert.deepEqual(parseCidr('10.0.0.77/24'), {
      cidr: { family: 4, value: 0x0a000000n, length: 24 },
      hostBits: true,
    });
    assert.equal(parseCidr('10.0.0.0/24')?.hostBits, false);
    assert.equal(parseCidr('2001:db8::1/32')?.hostBits, true);
  });

  it('ends at its last address', () => {
    assert.equal(lastAddress(cidr('10.0.0.0/8')), 0x0affffffn);
    assert.equal(lastAddress(cidr('0.0.0.0/0')), 0xffffffffn);
    assert.equal(lastAddress(cidr('::/0')), 2n ** 128n - 1n);
  });

  it('covers addresses inside of it, of its own family', () => {
    assert.ok(covers(cidr('10.0.0.0/8'), cidr('10.255.0.0/16')));
    assert.ok(covers(cidr('10.0.0.0/8'), cidr('10.0.0.0/8')));
    assert.ok(!covers(cidr('10.255.0.0/16'), cidr('10.0.0.0/8')));
    assert.ok(!covers(cidr('0.0.0.0/0'), cidr('::/0')));
  });

  it('is formatted without a length if it is one address', () => {
    assert.equal(formatCidr(cidr('10.0.0.7/32')), '10.0.0.7');
    assert.equal(formatCidr(cidr('10.0.0.0/31')), '10.0.0.0/31');
    assert.equal(formatCidr(cidr('::1/128')), '::1');
  });
});
