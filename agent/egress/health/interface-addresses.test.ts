import assert from 'node:assert/strict';
import { formatAddress, parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { InterfaceAddresses } from './interface-addresses.ts';

function lab() {
  const clock = fakeClock();
  const addresses: {
    link: number;
    address: Uint8Array;
    protocol: number;
    metric: number;
    deprecated: boolean;
  }[] = [];
  let [readings, changes] = [0, 0];
  const interfaces = new InterfaceAddresses({
    clock,
    async read() {
      readings++;
      return {
        links: [
          { index: 1, name: 'lo' },
          { index: 2, name: 'eth1' },
        ],
        addresses,
      };
    },
    changed: () => void changes++,
  });
  return {
    interfaces,
    clock,
    add(
      text: string,
      more: { link?: number; protocol?: number; metric?: number; deprecated?: boolean } = {},
    ) {
      const parsed = parseAddress(text);
      assert.ok(parsed !== null && formatAddress(parsed) === text);
      addresses.push({
        link: 2,
        protocol: 0,
        metric: 0,
        deprecated: false,
        ...more,
        address: packAddress(parsed),
      });
    },
    clear: () => addresses.splice(0),
    counts: () => ({ readings, changes }),
  };
}

const EVENT = [{ event: 'overrun' } as const];

describe('InterfaceAddresses', () => {
  it('are the first of each family that others can answer to', async () => {
    const { interfaces, add } = lab();
    add('127.0.0.1', { link: 1 });
    add('169.254.3.3');
    add('198.51.100.9', { protocol: 119 });
    // Linux before 5.18 keeps no protocol.
    add('198.51.100.10', { metric: 0x6e77_0078 });
    add('192.0.2.1');
    add('192.0.2.2');
    add('fe80::1');
    add('2001:db8::9', { deprecated: true });
    add('2001:db8::1');
    interfaces.follow(new Set(['eth1', 'eth2']));
    await interfaces.idle();
    assert.deepEqual(interfaces.of('eth1'), { ipv4: '192.0.2.1', ipv6: '2001:db8::1' });
    assert.deepEqual(interfaces.of('eth2'), {});
    assert.equal(interfaces.of('lo'), undefined);
  });

  it('follow events, and say so only where an address is another', async () => {
    const { interfaces, add, clear, clock, counts } = lab();
    add('192.0.2.1');
    interfaces.follow(new Set(['eth1']));
    await interfaces.idle();
    assert.deepEqual(counts(), { readings: 1, changes: 1 });
    clock.pass(1_000);
    interfaces.receive(EVENT);
    await interfaces.idle();
    assert.deepEqual(counts(), { readings: 2, changes: 1 });
    clear();
    add('192.0.2.7');
    clock.pass(1_000);
    interfaces.receive(EVENT);
    await interfaces.idle();
    assert.deepEqual([interfaces.of('eth1'), counts().changes], [{ ipv4: '192.0.2.7' }, 2]);
  });

  it('read nothing while no gateway names an interface', async () => {
    const { interfaces, counts } = lab();
    interfaces.receive(EVENT);
    await interfaces.idle();
    assert.equal(counts().readings, 0);
  });
});
