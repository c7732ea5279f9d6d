import assert from 'node:assert/strict';
import { type Case, entriesOf, refused } from './case.ts';

/** Cases that are particular to one type of set. */
export const TYPE_CASES: readonly Case[] = [
  {
    title: 'the entries of each type come back in the spelling of ipset',
    types: [
      'hash:ip',
      'hash:net',
      'hash:ip,port',
      'hash:net,port',
      'hash:ip,port,ip',
      'hash:ip,port,net',
      'hash:net,iface',
    ],
    async run(ipset) {
      const ipPort = { name: 'a', type: 'hash:ip,port' } as const;
      const netPort = { name: 'b', type: 'hash:net,port' } as const;
      const ipPortIp = { name: 'c', type: 'hash:ip,port,ip' } as const;
      const ipPortNet = { name: 'd', type: 'hash:ip,port,net' } as const;
      const netIface = { name: 'e', type: 'hash:net,iface' } as const;
      for (const set of [ipPort, netPort, ipPortIp, ipPortNet, netIface]) await ipset.create(set);
      await ipset.restore([
        { op: 'add', set: ipPort, entry: { ip: '192.0.2.1', port: 80 } },
        { op: 'add', set: ipPort, entry: { ip: '192.0.2.1', port: 'icmp:8/0' } },
        { op: 'add', set: ipPort, entry: { ip: '192.0.2.1', port: '47:0' } },
        { op: 'add', set: netPort, entry: { net: '192.0.2.1/24', port: 'udp:53-54' } },
        { op: 'add', set: ipPortIp, entry: { ip: '192.0.2.1', port: 'sctp:7', ip2: '192.0.2.2' } },
        {
          op: 'add',
          set: ipPortNet,
          entry: { ip: '192.0.2.1', port: 'tcp:1', net: '10.9.9.9/8', nomatch: true },
        },
        { op: 'add', set: netIface, entry: { net: '0.0.0.0/0', iface: 'eth', wildcard: true } },
        { op: 'add', set: netIface, entry: { net: '192.0.2.0/24', iface: 'eth0', physdev: true } },
      ]);
      const found = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => entriesOf(ipset, name)));
      assert.deepEqual(found, [
        [
          { ip: '192.0.2.1', port: 'gre:0' },
          { ip: '192.0.2.1', port: 'icmp:echo-request' },
          { ip: '192.0.2.1', port: 'tcp:80' },
        ],
        [
          { net: '192.0.2.0/24', port: 'udp:53' },
          { net: '192.0.2.0/24', port: 'udp:54' },
        ],
        [{ ip: '192.0.2.1', port: 'sctp:7', ip2: '192.0.2.2' }],
        [{ ip: '192.0.2.1', port: 'tcp:1', net: '10.0.0.0/8', nomatch: true }],
        [
          { net: '0.0.0.0/0', iface: 'eth', wildcard: true },
          { net: '192.0.2.0/24', iface: 'eth0', physdev: true },
        ],
      ]);
      await refused('SYNTAX', ipset.add(ipPort, { ip: '192.0.2.1', port: 'gre:5' }));
      await refused('SYNTAX', ipset.add(ipPort, { ip: '192.0.2.1', port: 'icmpv6:1/0' }));
      await refused('SYNTAX', ipset.add(ipPort, { ip: '192.0.2.1', port: 'tcp:70000' }));
    },
  },
  {
    title: 'a mask falls on what is added and what is asked for',
    types: ['hash:ip', 'hash:ip,port', 'bitmap:ip'],
    async run(ipset) {
      const masked = { name: 'ips', type: 'hash:ip', netmask: 24 } as const;
      const odd = { name: 'odd', type: 'hash:ip', bitmask: '255.255.0.255' } as const;
      const bits = { name: 'bits', type: 'bitmap:ip', range: '192.0.2.0/24', netmask: 28 } as const;
      for (const set of [masked, odd, bits]) await ipset.create(set);
      await ipset.add(masked, { ip: '192.0.2.77' });
      await ipset.add(odd, { ip: '192.0.2.77' });
      await ipset.add(bits, { ip: '192.0.2.77' });
      assert.deepEqual(await entriesOf(ipset, 'ips'), [{ ip: '192.0.2.0' }]);
      assert.deepEqual(await entriesOf(ipset, 'odd'), [{ ip: '192.0.0.77' }]);
      assert.deepEqual(await entriesOf(ipset, 'bits'), [{ ip: '192.0.2.64' }]);
      assert.equal(await ipset.test(masked, { ip: '192.0.2.5' }), true);
      assert.equal(await ipset.test(odd, { ip: '192.0.9.77' }), true);
      await refused('OUT_OF_RANGE', ipset.add(bits, { ip: '192.0.3.1' }));
    },
  },
  {
    title: 'a bitmap of addresses and MAC addresses learns the latter',
    types: ['bitmap:ip,mac'],
    async run(ipset) {
      const set = { name: 'hosts', type: 'bitmap:ip,mac', range: '192.0.2.0-192.0.2.9' } as const;
      await ipset.create(set);
      await ipset.add(set, { ip: '192.0.2.1' });
      await ipset.add(set, { ip: '192.0.2.1', mac: '02:00:00:00:00:ab' });
      assert.deepEqual(await entriesOf(ipset, 'hosts'), [{ ip: '192.0.2.1', mac: '02:00:00:00:00:AB' }]);
      await refused('OUT_OF_RANGE', ipset.add(set, { ip: '192.0.2.10' }));
    },
  },
  {
    title: 'hash:mac',
    types: ['hash:mac'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:mac' } as const;
      await ipset.create(set);
      await ipset.add(set, { mac: '02:00:00:00:00:ab' });
      assert.deepEqual(await entriesOf(ipset, 'a'), [{ mac: '02:00:00:00:00:AB' }]);
    },
  },
  {
    title: 'hash:ip,mac',
    types: ['hash:ip,mac'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:ip,mac' } as const;
      await ipset.create(set);
      await ipset.add(set, { ip: '192.0.2.1', mac: '02:00:00:00:00:ab' });
      assert.deepEqual(await entriesOf(ipset, 'a'), [{ ip: '192.0.2.1', mac: '02:00:00:00:00:AB' }]);
      assert.equal(await ipset.test(set, { ip: '192.0.2.1', mac: '02:00:00:00:00:AC' }), false);
    },
  },
  {
    title: 'hash:net,net',
    types: ['hash:net,net'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:net,net' } as const;
      await ipset.create(set);
      await ipset.add(set, { net: '10.0.0.0/8', net2: '192.0.2.0/24' });
      assert.equal(await ipset.test(set, { net: '10.1.1.1', net2: '192.0.2.9' }), true);
      assert.equal(await ipset.test(set, { net: '192.0.2.9', net2: '10.1.1.1' }), false);
    },
  },
  {
    title: 'hash:ip,mark',
    types: ['hash:ip,mark'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:ip,mark' } as const;
      await ipset.create(set);
      await ipset.add(set, { ip: '192.0.2.1', mark: 0x63 });
      assert.deepEqual(await entriesOf(ipset, 'a'), [{ ip: '192.0.2.1', mark: 0x63 }]);
    },
  },
  {
    title: 'hash:net,port,net',
    types: ['hash:net,port,net'],
    async run(ipset) {
      const set = { name: 'a', type: 'hash:net,port,net' } as const;
      await ipset.create(set);
      await ipset.add(set, { net: '10.0.0.0/8', port: 'tcp:80-81', net2: '192.0.2.0/24' });
      assert.deepEqual(await entriesOf(ipset, 'a'), [
        { net: '10.0.0.0/8', port: 'tcp:80', net2: '192.0.2.0/24' },
        { net: '10.0.0.0/8', port: 'tcp:81', net2: '192.0.2.0/24' },
      ]);
    },
  },
];
