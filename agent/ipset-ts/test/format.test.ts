import assert from 'node:assert/strict';
import { IpsetError, type RestoreOperation, type SetDefinition, toRestoreText } from '../lib/index.ts';

const nets = { name: 'nets', type: 'hash:net' } as const;
const ips = { name: 'ips', type: 'hash:ip' } as const;

/** Everything that a caller could hand over to make two words or two commands of one. */
const HOSTILE = ['', ' ', 'a b', 'a\nflush', 'a\tb', 'a"b', '-exist', '\u0000', 'x\rflush'];

describe('input for ipset', () => {
  it('is a line for each operation', () => {
    const set: SetDefinition<'hash:net'> = {
      ...nets,
      family: 'inet6',
      maxelem: 5,
      timeout: 0,
      comment: true,
      forceadd: true,
    };
    const operations: RestoreOperation[] = [
      { op: 'create', set },
      { op: 'create', set: { name: 'm', type: 'hash:ip,mark', markmask: 255 } },
      { op: 'add', set, entry: { net: '2001:db8::/32', timeout: 3, nomatch: true, comment: 'a  b' } },
      { op: 'add', set: { name: 'm', type: 'hash:ip,mark' }, entry: { ip: '192.0.2.1', mark: 99 } },
      { op: 'add', set: { name: 'l', type: 'list:set' }, entry: { set: 'nets', before: 'm', timeout: 1 } },
      { op: 'del', set, entry: { net: '2001:db8::/32' } },
      { op: 'add', set: { name: 'p', type: 'bitmap:port' }, entry: { port: 80 } },
      { op: 'add', set: { name: 'q', type: 'hash:ip,port' }, entry: { ip: '192.0.2.1', port: 80 } },
      { op: 'flush', name: 'nets' },
      { op: 'swap', from: 'nets', to: 'other' },
      { op: 'rename', from: 'nets', to: 'other' },
      { op: 'destroy', name: 'nets' },
    ];
    assert.deepEqual(toRestoreText(operations).split('\n'), [
      'create nets hash:net family inet6 maxelem 5 timeout 0 comment forceadd',
      'create m hash:ip,mark markmask 0x000000ff',
      'add nets 2001:db8::/32 timeout 3 nomatch comment "a  b"',
      'add m 192.0.2.1,0x00000063',
      'add l nets before m timeout 1',
      'del nets 2001:db8::/32',
      'add p 80',
      'add q 192.0.2.1,tcp:80',
      'flush nets',
      'swap nets other',
      'rename nets other',
      'destroy nets',
      '',
    ]);
  });

  it('deletes an entry as save gave it', () => {
    const entry = { net: '10.0.0.0/8', nomatch: true, timeout: 5, comment: 'x', packets: 1n };
    assert.equal(toRestoreText([{ op: 'del', set: nets, entry }]), 'del nets 10.0.0.0/8\n');
  });

  it('contains no value that ipset would read as several words', () => {
    for (const value of HOSTILE) {
      const operations = [
        { op: 'create', set: { ...nets, name: value } },
        { op: 'create', set: { ...nets, type: value } },
        { op: 'create', set: { ...nets, family: value } },
        { op: 'create', set: { ...ips, bitmask: value } },
        { op: 'create', set: { ...ips, maxelem: value } },
        { op: 'create', set: { name: 'a', type: 'bitmap:ip', range: value } },
        { op: 'create', set: { name: 'a', type: 'bitmap:port', range: value } },
        { op: 'flush', name: value },
        { op: 'swap', from: 'a', to: value },
        { op: 'add', set: { ...nets, name: value }, entry: { net: '10.0.0.0/8' } },
        { op: 'add', set: nets, entry: { net: `10.0.0.0/8${value === '' ? '/' : value}` } },
        { op: 'add', set: { name: 'a', type: 'hash:mac' }, entry: { mac: value } },
        { op: 'add', set: { name: 'a', type: 'hash:ip,port' }, entry: { ip: '192.0.2.1', port: value } },
        { op: 'add', set: { name: 'a', type: 'bitmap:port' }, entry: { port: value } },
        {
          op: 'add',
          set: { name: 'a', type: 'hash:net,iface' },
          entry: { net: '10.0.0.0/8', iface: value.slice(1) },
        },
        { op: 'add', set: { name: 'a', type: 'list:set' }, entry: { set: value } },
        { op: 'add', set: { name: 'a', type: 'list:set' }, entry: { set: 'b', before: value } },
        { op: 'add', set: nets, entry: { net: '10.0.0.0/8', skbmark: value } },
        { op: 'add', set: nets, entry: { net: '10.0.0.0/8', skbprio: value } },
      ] as unknown as RestoreOperation[];
      for (const operation of operations) {
        // The rest of an interface's name may be fine.
        if (JSON.stringify(operation).includes('"iface":"exist"')) continue;
        assert.throws(() => toRestoreText([operation]), IpsetError, JSON.stringify(operation));
      }
    }
  });

  it('contains no comment that ipset would read as an option', () => {
    for (const comment of ['', 'a"b', 'a\nb', '-exist', '-!', 'x'.repeat(256), 'ü'.repeat(128)]) {
      const operation: RestoreOperation = { op: 'add', set: ips, entry: { ip: '192.0.2.1', comment } };
      assert.throws(() => toRestoreText([operation]), { code: 'SYNTAX' }, comment);
    }
  });

  it('names the rejected operation, and the maximum length of names', () => {
    const long = 'x'.repeat(32);
    const operations: RestoreOperation[] = [
      { op: 'flush', name: 'x'.repeat(31) },
      { op: 'destroy', name: long },
    ];
    const wanted = { code: 'NAME_TOO_LONG', operation: 1, line: 2, command: null, exitCode: null };
    assert.throws(() => toRestoreText(operations), wanted);
    // Bytes count, not characters.
    assert.throws(() => toRestoreText([{ op: 'flush', name: 'ü'.repeat(16) }]), { code: 'NAME_TOO_LONG' });
  });

  it('contains no address that ipset would resolve by DNS, and no number out of range', () => {
    for (const net of [
      'localhost',
      '10.0.0.0/33',
      '2001:db8::/129',
      'fe80::1%eth0',
      '::1-::2',
      '1.2.3',
      '10.0.0.1-x',
    ]) {
      assert.throws(() => toRestoreText([{ op: 'add', set: nets, entry: { net } }]), { code: 'SYNTAX' }, net);
    }
    const wrong = [
      { timeout: 2_147_484 },
      { timeout: -1 },
      { timeout: 0.5 },
      { packets: 2n ** 64n - 1n },
      { skbqueue: 65_536 },
    ];
    for (const options of wrong) {
      const operation: RestoreOperation = { op: 'add', set: nets, entry: { net: '10.0.0.0/8', ...options } };
      assert.throws(() => toRestoreText([operation]), { code: 'SYNTAX' }, Object.keys(options).join());
    }
  });

  it('contains every field of an entry', () => {
    const operation = { op: 'add', set: { name: 'a', type: 'hash:ip,port' }, entry: { ip: '192.0.2.1' } };
    assert.throws(() => toRestoreText([operation as unknown as RestoreOperation]), /needs port/);
    const create = { op: 'create', set: { name: 'a', type: 'bitmap:ip' } };
    assert.throws(() => toRestoreText([create as unknown as RestoreOperation]), /needs a range/);
  });
});
