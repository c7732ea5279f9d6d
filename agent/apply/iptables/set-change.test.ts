import assert from 'node:assert/strict';
import { type RestoreOperation, toRestoreText } from 'ipset-ts';
import { addressSet } from '../../../test/fake/iptables-ruleset.ts';
import type { IpSet } from '../../render/iptables/tables.ts';
import { toKernelSet } from './kernel-set.ts';
import { setChange } from './set-change.ts';

const NAME = 'nodewall-a';

function addresses(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
}

function change(before: IpSet, after: IpSet, maxelem = 65_536): string[] {
  const held = new Map([[before.name, toKernelSet(before, { maxelem })]]);
  const { first, less, last } = setChange(held, new Map([[after.name, after]]));
  return [first, less, last].map((operations: readonly RestoreOperation[]) => toRestoreText(operations));
}

describe('the change of sets', () => {
  it('is empty for equal sets', () => {
    assert.deepEqual(change(addressSet(NAME, 4, addresses(3)), addressSet(NAME, 4, addresses(3))), [
      '',
      '',
      '',
    ]);
  });

  it('sizes a set for twice its members, so that filling does not resize it', () => {
    const set = addressSet(NAME, 4, []);
    const [few] = toRestoreText(setChange(new Map(), new Map([[NAME, set]])).first).split('\n');
    assert.equal(few, 'create nodewall-a hash:ip family inet hashsize 64 maxelem 65536');
    const many = { ...set, members: { singles: new Uint8Array(4 * 100_000).fill(1), prefixes: [] } };
    const [line] = toRestoreText(setChange(new Map(), new Map([[NAME, many]])).first.slice(0, 1)).split('\n');
    assert.equal(line, 'create nodewall-a hash:ip family inet hashsize 65536 maxelem 262144');
  });

  it('changes few members one by one, and replaces the set when most change', () => {
    const before = addressSet(NAME, 4, addresses(1000));
    const [few, gone] = change(before, addressSet(NAME, 4, [...addresses(998), '192.0.2.1']));
    assert.equal(few, 'add nodewall-a 192.0.2.1\n');
    assert.equal(gone, 'del nodewall-a 10.0.3.230\ndel nodewall-a 10.0.3.231\n');
    const [most, none] = change(before, addressSet(NAME, 4, addresses(400)));
    assert.match(most ?? '', /^create nodewall-tmp-0 .*\nadd nodewall-tmp-0 10\.0\.0\.0\n/);
    assert.ok(most?.endsWith('swap nodewall-tmp-0 nodewall-a\ndestroy nodewall-tmp-0\n'));
    assert.equal(none, '');
  });

  it('replaces a set that has no room', () => {
    const [first] = change(addressSet(NAME, 4, addresses(10)), addressSet(NAME, 4, addresses(11)), 10);
    assert.match(first ?? '', /swap nodewall-tmp-0 nodewall-a\n/);
  });

  it('replaces a set of another type, and removes unused sets', () => {
    const [first, , last] = change(addressSet(NAME, 6, ['::1']), addressSet(NAME, 4, ['192.0.2.1']));
    assert.match(first ?? '', /^destroy nodewall-a\ncreate nodewall-a hash:ip family inet /);
    assert.equal(last, '');
    const [, , unwanted] = change(addressSet('nodewall-b', 4, []), addressSet(NAME, 4, []));
    assert.equal(unwanted, 'destroy nodewall-b\n');
  });

  it('leaves entries with a timeout to who renews them', () => {
    const [timed, other] = [4, 6].map((family) => ({
      ...addressSet(NAME, family as 4 | 6, []),
      type: 'hash:net' as const,
      timeout: 30,
      members: { singles: new Uint8Array(), prefixes: [{ family: family as 4 | 6, value: 0n, length: 0 }] },
    }));
    assert.ok(timed && other);
    assert.deepEqual(change(timed, timed), ['', '', '']);
    assert.equal(
      toRestoreText(setChange(new Map(), new Map([[NAME, other]])).first),
      'create nodewall-a hash:net family inet6 hashsize 64 maxelem 65536 timeout 30\nadd nodewall-a ::/1\nadd nodewall-a 8000::/1\n',
    );
    const { timeout: _, ...lasting } = timed;
    assert.match(change(lasting, timed)[0] ?? '', /timeout 30\n.*\n.*\nswap nodewall-tmp-0 nodewall-a\n/);
  });

  it('never uses a temporary name that exists', () => {
    const held = new Map(
      ['nodewall-tmp-0', NAME].map((name) => [
        name,
        toKernelSet(addressSet(name, 4, addresses(2)), { maxelem: 2 }),
      ]),
    );
    const { first } = setChange(held, new Map([[NAME, addressSet(NAME, 4, addresses(3))]]));
    assert.match(toRestoreText(first), /swap nodewall-tmp-1 nodewall-a/);
  });
});
