import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type RouteChange,
  type RouteEvent,
  type RouteLink,
  RouteMonitor,
  type RouteObject,
  type RouteOperation,
  RouteSocket,
} from '../lib/index.ts';
import { inNamespace, ip, ipBatch } from './netns.ts';

const NONE = new Uint8Array(0);
const MAC = Uint8Array.of(0x0e, 1, 2, 3, 4, 5);
const PROTOCOL = 119;
const TABLE = 0x6e77_0001;
const VIA = Uint8Array.of(0xfe, 0x80, ...new Array<number>(13).fill(0), 7);
const TUNNEL: RouteLink = {
  index: 0,
  name: 'tunnel',
  kind: 'vxlan',
  group: 10,
  mtu: 1400,
  mac: MAC,
  isUp: true,
  vxlan: {
    id: 7412,
    port: 7790,
    local: Uint8Array.of(10, 0, 0, 1),
    remote: NONE,
    learning: false,
    checksum: false,
  },
};

const change = (operation: RouteOperation, object: RouteObject): RouteChange => ({ operation, ...object });

inNamespace(import.meta.filename, () => {
  let socket: RouteSocket;
  beforeEach(() => {
    socket = new RouteSocket();
  });
  afterEach(async () => {
    for (const family of ['-4', '-6']) {
      while (/\n/.test(ip(family, 'rule', 'show', 'priority', '71')))
        ip(family, 'rule', 'del', 'priority', '71');
    }
    if (/tunnel/.test(ip('link'))) ip('link', 'del', 'tunnel');
    ip('nexthop', 'flush');
    await socket.close();
  });

  const make = async (...objects: readonly RouteObject[]): Promise<void> => {
    const results = await socket.change(objects.map((object) => change('add', object)));
    assert.deepEqual(
      results.map((error) => error?.message ?? null),
      objects.map(() => null),
    );
  };
  const makeTunnel = async (): Promise<number> => {
    await make({ kind: 'link', link: TUNNEL });
    return (await tunnel()).index;
  };
  const tunnel = async (): Promise<RouteLink> => {
    const link = (await socket.links()).find(({ name }) => name === TUNNEL.name);
    assert.ok(link);
    return link;
  };

  describe('RouteSocket', () => {
    it('makes a VXLAN link as ip(8) shows it, and reads it back', async () => {
      const index = await makeTunnel();
      const shown = ip('-d', 'link', 'show', 'tunnel');
      assert.match(shown, /mtu 1400 .* group 10 /);
      assert.match(shown, /link\/ether 0e:01:02:03:04:05 /);
      assert.match(shown, /vxlan id 7412 local 10\.0\.0\.1 .*dstport 7790 .*nolearning .*noudpcsum /);
      const rest = { isLoopback: false, hasQueue: false };
      const alone = { master: null, peer: null, peerNamespace: null, ...rest, tunnelPort: 7790 };
      assert.deepEqual(await tunnel(), { ...TUNNEL, ...alone, index });
      const changed = { ...TUNNEL, index, group: 11, mtu: 1300, mac: Uint8Array.of(0x0e, 9, 9, 9, 9, 9) };
      assert.deepEqual(await socket.change([change('replace', { kind: 'link', link: changed })]), [null]);
      assert.deepEqual(await tunnel(), { ...changed, ...alone });
      assert.deepEqual(await socket.change([change('delete', { kind: 'link', link: changed })]), [null]);
      assert.doesNotMatch(ip('link'), /tunnel/);
    });

    it('reads the UDP port of tunnels of any kind that this kernel has', async () => {
      const ends = 'remote 10.0.0.2 local 10.0.0.1';
      for (const [line, port] of [
        [`vxlan id 1 ${ends} dstport 8472`, 8472],
        ['geneve id 1 remote 10.0.0.2 dstport 6081', 6081],
        ['bareudp dstport 6635 ethertype ipv4', 6635],
        [`ipip ${ends}`, undefined],
        [`ipip ${ends} encap fou encap-sport auto encap-dport 5555`, 5555],
        [`gre ${ends} encap gue encap-sport auto encap-dport 5556`, 5556],
      ] as const) {
        try {
          ip('link', 'add', 'probed', 'type', ...line.split(' '));
        } catch (error) {
          assert.match(String(error), /Unknown device type|not supported/i, line);
          continue;
        }
        const links = await socket.links();
        assert.equal(links.find(({ name }) => name === 'probed')?.tunnelPort, port, line);
        ip('link', 'del', 'probed');
      }
    });

    it('changes IPv4 settings of a link as sysctl(8) does', async () => {
      await makeTunnel();
      const setting = (name: string): string =>
        readFileSync(`/proc/sys/net/ipv4/conf/tunnel/${name}`, 'utf8').trim();
      assert.deepEqual([setting('rp_filter'), setting('src_valid_mark')], ['0', '0']);
      await socket.setIPv4('tunnel', 'rp_filter', 2);
      await socket.setIPv4('tunnel', 'src_valid_mark', 1);
      assert.deepEqual([setting('rp_filter'), setting('src_valid_mark')], ['2', '1']);
      await assert.rejects(socket.setIPv4('nothing', 'rp_filter', 1), { code: 'ENODEV' });
    });

    it('makes a VXLAN link over IPv6, and a bridge', async () => {
      const local = Uint8Array.of(0xfd, ...new Array<number>(14).fill(0), 1);
      const vxlan = TUNNEL.vxlan && { ...TUNNEL.vxlan, local, checksum: true };
      const bridge: RouteLink = { ...TUNNEL, name: 'bridge', kind: 'bridge', mtu: 0, mac: NONE, vxlan: null };
      await make({ kind: 'link', link: { ...TUNNEL, vxlan } }, { kind: 'link', link: bridge });
      assert.match(ip('-d', 'link', 'show', 'tunnel'), /vxlan id 7412 local fd00::1 .* udpcsum /);
      assert.deepEqual((await tunnel()).vxlan, vxlan);
      assert.match(ip('-d', 'link', 'show', 'bridge'), /<[\w,-]*UP.* group 10 [\s\S]* bridge /);
      ip('link', 'del', 'dev', 'bridge');
    });

    it('makes addresses that are no source and have no route', async () => {
      const link = await makeTunnel();
      const v4 = {
        link,
        address: Uint8Array.of(192, 0, 2, 7),
        prefixLength: 32,
        protocol: PROTOCOL,
        metric: 0x6e770078,
      };
      const v6 = { ...v4, address: Uint8Array.of(0x20, 1, 0xd, 0xb8, ...new Array<number>(11).fill(0), 7) };
      const flags = { noPrefixRoute: true, deprecated: true };
      const made = [
        { ...v4, ...flags, noDad: false },
        { ...v6, ...flags, prefixLength: 128, noDad: true },
      ];
      await make(...made.map((address) => ({ kind: 'address', address }) as const));
      const shown = ip('addr', 'show', 'tunnel');
      assert.match(
        shown,
        /inet 192\.0\.2\.7\/32 metric 1853292664 scope global deprecated noprefixroute tunnel/,
      );
      assert.match(
        shown,
        /inet6 2001:db8::7\/128 metric 1853292664 scope global nodad deprecated noprefixroute/,
      );
      assert.match(shown, /2001:db8::7[\s\S]*valid_lft forever preferred_lft 0sec/);
      const ours = (await socket.addresses()).filter(({ protocol }) => protocol === PROTOCOL);
      assert.deepEqual(ours, made);
      const [error] = await socket.change([
        change('delete', { kind: 'address', address: { ...v4, ...made[0] } as never }),
      ]);
      assert.equal(error, null);
      assert.doesNotMatch(ip('addr', 'show', 'tunnel'), /192\.0\.2\.7/);
    });

    it('makes entries of the forwarding database and neighbours, replaces and deletes them', async () => {
      const link = await makeTunnel();
      const entry = {
        kind: 'fdb',
        link,
        address: Uint8Array.of(10, 0, 0, 2),
        mac: MAC,
        isPermanent: true,
      } as const;
      const neighbour = { ...entry, kind: 'neighbour', address: VIA } as const;
      await make({ kind: 'neighbour', neighbour: entry }, { kind: 'neighbour', neighbour });
      assert.deepEqual(await socket.fdb(link), [entry]);
      assert.deepEqual(
        (await socket.neighbours(link)).filter((it) => it.isPermanent),
        [neighbour],
      );
      assert.match(ip('neigh', 'show', 'dev', 'tunnel'), /^fe80::7 lladdr 0e:01:02:03:04:05 PERMANENT/m);
      const moved = { ...entry, address: Uint8Array.of(10, 0, 0, 3) };
      const results = await socket.change([
        change('add', { kind: 'neighbour', neighbour: moved }),
        change('replace', { kind: 'neighbour', neighbour: moved }),
        change('delete', { kind: 'neighbour', neighbour }),
      ]);
      assert.deepEqual(
        results.map((error) => error?.code ?? null),
        ['EEXIST', null, null],
      );
      assert.deepEqual(await socket.fdb(link), [moved]);
    });

    it('makes next hops, groups and routes of both families by an IPv6 next hop', async () => {
      const link = await makeTunnel();
      const nexthop = { id: 100, protocol: PROTOCOL, link, via: VIA, group: [] };
      const group = { ...nexthop, id: 1, link: 0, via: NONE, group: [{ id: 100, weight: 1 }] };
      const route = { table: TABLE, prefixLength: 0, protocol: PROTOCOL, nexthop: 1, type: 1 };
      const v4 = { ...route, family: 4, destination: new Uint8Array(4), metric: 0 } as const;
      const v6 = { ...route, family: 6, destination: new Uint8Array(16), metric: 1024 } as const;
      await make({ kind: 'nexthop', nexthop }, { kind: 'nexthop', nexthop: group });
      await make({ kind: 'route', route: v4 }, { kind: 'route', route: v6 });
      assert.match(
        ip('route', 'show', 'table', String(TABLE)),
        /^default nhid 1 via inet6 fe80::7 dev tunnel proto 119/,
      );
      assert.match(
        ip('-6', 'route', 'show', 'table', String(TABLE)),
        /^default nhid 1 proto 119 metric 1024 .*\n\tnexthop via fe80::7 dev tunnel/,
      );
      assert.deepEqual(await socket.nexthops(), [group, nexthop]);
      assert.deepEqual(await socket.routes({ family: 4, table: TABLE }), [v4]);
      assert.deepEqual(await socket.routes({ family: 6, protocol: PROTOCOL }), [v6]);
      assert.deepEqual(await socket.routes({ family: 4, table: TABLE + 1 }), []);
      const other = { ...nexthop, id: 101, via: Uint8Array.of(...VIA.slice(0, 15), 8) };
      const results = await socket.change([
        change('add', { kind: 'nexthop', nexthop: other }),
        change('replace', { kind: 'nexthop', nexthop: { ...group, group: [{ id: 101, weight: 1 }] } }),
        change('add', { kind: 'nexthop', nexthop: group }),
        change('delete', { kind: 'route', route: v6 }),
      ]);
      assert.deepEqual(
        results.map((error) => error?.code ?? null),
        [null, null, 'EEXIST', null],
      );
      assert.match(ip('route', 'show', 'table', String(TABLE)), /via inet6 fe80::8 /);
    });

    it('reads by which links the routes of every table lead, and which have a gateway', async () => {
      ip('link', 'add', 'tunnel', 'up', 'type', 'vxlan', 'id', '9', 'dstport', '7790', 'local', '10.0.0.1');
      const index = (await socket.links()).find(({ name }) => name === 'tunnel')?.index ?? 0;
      ip('nexthop', 'add', 'id', '7', 'via', 'fe80::7', 'dev', 'tunnel');
      ipBatch([
        'route add 10.0.0.5/32 dev tunnel scope host',
        'route add 10.1.0.0/16 via inet6 fe80::7 dev tunnel table 77',
        'route add 10.2.0.0/16 table 77 nexthop dev tunnel nexthop via inet6 fe80::9 dev tunnel',
        'route add 10.3.0.0/16 nhid 7 table 77',
        'route add blackhole 10.4.0.0/16 table 77',
        'route add fd00:1::/64 dev tunnel table 77',
        'route add fd00:2::/64 table 77 nexthop via fe80::7 dev tunnel nexthop via fe80::9 dev tunnel',
      ]);
      const read = async (family: 4 | 6, table: number) =>
        (await socket.linkRoutes(family))
          .filter((it) => it.table === table && it.ways.every(({ link }) => link === index))
          .map(({ prefixLength, ways }) => [prefixLength, ...ways.map(({ hasGateway }) => hasGateway)]);
      const v4 = await read(4, 77);
      assert.deepEqual(v4.sort(), [[16], [16, false, true], [16, true], [16, true]].sort());
      const v6 = await read(6, 77);
      assert.ok(v6.some(([, first]) => first === false) && v6.some(([, first]) => first === true), `${v6}`);
      const own = (await socket.linkRoutes(4)).find(({ scope }) => scope === 254 && scope > 0);
      assert.deepEqual([own?.table, own?.protocol, own?.type], [254, 3, 1]);
    });

    it('makes rules of every action, and reads what others made', async () => {
      const plain = { family: 4, priority: 71, protocol: 2, table: 0, target: 0, mark: 0, mask: 0 } as const;
      const rules = [
        { ...plain, action: 'nop', invert: false, hasMore: false },
        { ...plain, action: 'goto', target: 79, mask: 0x7f00_0000, invert: true, hasMore: false },
        {
          ...plain,
          action: 'table',
          table: TABLE,
          mark: 1 << 24,
          mask: 0x7f00_0000,
          invert: false,
          hasMore: false,
        },
        {
          ...plain,
          family: 6,
          action: 'table',
          table: TABLE,
          mark: 1,
          mask: 0xff,
          invert: false,
          hasMore: false,
        },
      ] as const;
      await make(...rules.map((rule) => ({ kind: 'rule', rule }) as const));
      const shown = ip('-d', 'rule', 'show', 'priority', '71');
      assert.match(shown, /^71:\tfrom all nop proto kernel/m);
      assert.match(shown, /^71:\tnot from all fwmark 0\/0x7f000000 goto 79 \[unresolved\] proto kernel/m);
      assert.match(shown, /^71:\tfrom all fwmark 0x1000000\/0x7f000000 lookup 1853292545 proto kernel/m);
      ip('rule', 'add', 'priority', '71', 'iif', 'lo', 'uidrange', '0-1', 'table', '7');
      const read = (await socket.rules()).filter(({ priority }) => priority === 71);
      assert.deepEqual(
        read.filter(({ hasMore }) => !hasMore),
        rules,
      );
      assert.deepEqual(
        read.filter(({ hasMore }) => hasMore).map(({ table, protocol }) => [table, protocol]),
        [[7, 0]],
      );
      const [again] = await socket.change([change('add', { kind: 'rule', rule: rules[1] })]);
      assert.equal(again?.code, 'EEXIST');
      const gone = await socket.change(rules.map((rule) => change('delete', { kind: 'rule', rule })));
      assert.deepEqual(gone, [null, null, null, null]);
      assert.equal((await socket.rules()).filter(({ priority }) => priority === 71).length, 1);
    });

    it('gives each refusal of the kernel with its text, and makes the other changes', async () => {
      const link = await makeTunnel();
      const nexthop = { id: 5, protocol: PROTOCOL, link, via: VIA, group: [] };
      const results = await socket.change(
        [
          change('add', { kind: 'link', link: { ...TUNNEL, name: 'odd', kind: 'noSuchKind', vxlan: null } }),
          change('add', { kind: 'nexthop', nexthop: { ...nexthop, link: 999 } }),
          change('add', { kind: 'nexthop', nexthop }),
        ],
        (index) => `change ${index}`,
      );
      assert.deepEqual(
        results.map((error) => error?.message ?? null),
        [
          'change 0: Operation not supported: Unknown device type',
          'change 1: Invalid argument: Invalid device index',
          null,
        ],
      );
    });

    it('reads and changes thousands of objects, while others change them too', async () => {
      const link = await makeTunnel();
      const nexthops = Array.from({ length: 3_000 }, (_, i) => ({
        id: 10 + i,
        protocol: PROTOCOL,
        link,
        via: VIA,
        group: [],
      }));
      await make(...nexthops.map((nexthop) => ({ kind: 'nexthop', nexthop }) as const));
      const other = new RouteSocket();
      const churn = nexthops
        .slice(0, 500)
        .flatMap((nexthop) => [
          change('delete', { kind: 'nexthop', nexthop }),
          change('add', { kind: 'nexthop', nexthop }),
        ]);
      const churned = other.change(churn);
      const counts = new Set<number>();
      for (let i = 0; i < 20; i++) counts.add((await socket.nexthops()).length);
      assert.ok((await churned).every((error) => error === null));
      assert.deepEqual(
        [...counts].filter((count) => count < 2_999),
        [],
      );
      assert.deepEqual(await socket.nexthops(), nexthops);
      await other.close();
    });
  });

  describe('RouteMonitor', () => {
    let events: RouteEvent[];
    let monitor: RouteMonitor | null = null;
    const listen = (receiveBuffer?: number): void => {
      events = [];
      const options = receiveBuffer === undefined ? {} : { receiveBuffer };
      monitor = new RouteMonitor(options, (batch) => events.push(...batch));
    };
    afterEach(async () => {
      await monitor?.close();
      monitor = null;
    });

    const until = async (holds: (event: RouteEvent) => boolean): Promise<void> => {
      for (let i = 0; !events.some(holds) && i < 500; i++) await sleep(10);
      assert.ok(events.some(holds), `${events.length} events`);
    };
    const told = (
      event: 'present' | 'removed',
      kind: RouteObject['kind'],
      is = (_: RouteObject): boolean => true,
    ) => until((it) => it.event === event && it.object.kind === kind && is(it.object));

    it('reports every kind of object, whoever made or removed it', async () => {
      listen();
      ip('link', 'add', 'tunnel', 'up', 'type', 'vxlan', 'id', '9', 'dstport', '7790', 'local', '10.0.0.1');
      await told('present', 'link', (it) => it.kind === 'link' && it.link.vxlan?.id === 9);
      const made: [RouteObject['kind'], string[]][] = [
        ['address', ['addr', 'add', '192.0.2.9/32', 'dev', 'tunnel']],
        ['address', ['addr', 'add', '2001:db8::9/128', 'dev', 'tunnel']],
        ['neighbour', ['neigh', 'add', 'fe80::7', 'lladdr', '0e:00:00:00:00:01', 'dev', 'tunnel']],
        ['nexthop', ['nexthop', 'add', 'id', '7', 'via', 'fe80::7', 'dev', 'tunnel']],
        ['route', ['route', 'add', '198.51.100.0/24', 'nhid', '7', 'table', '77']],
        ['route', ['-6', 'route', 'add', '2001:db8:1::/48', 'nhid', '7', 'table', '77']],
        ['rule', ['rule', 'add', 'priority', '71', 'fwmark', '1', 'table', '77']],
        ['rule', ['-6', 'rule', 'add', 'priority', '71', 'fwmark', '1', 'table', '77']],
      ];
      for (const [kind, command] of made) {
        events = [];
        ip(...command);
        await told('present', kind);
      }
      for (const [kind, command] of made.toReversed()) {
        events = [];
        const words = kind === 'nexthop' ? command.slice(0, 4) : command;
        ip(...words.map((word) => (word === 'add' ? 'del' : word)));
        await told('removed', kind);
      }
      ip('link', 'del', 'tunnel');
      await told('removed', 'link');
    });

    it('reports only the kinds that are asked for', async () => {
      events = [];
      monitor = new RouteMonitor({ kinds: ['address'] }, (batch) => events.push(...batch));
      ip('link', 'add', 'tunnel', 'up', 'type', 'vxlan', 'id', '9', 'dstport', '7790', 'local', '10.0.0.1');
      ip('route', 'add', '198.51.100.0/24', 'dev', 'tunnel');
      ip('addr', 'add', '2001:db8::9/128', 'dev', 'tunnel');
      ip('addr', 'add', '192.0.2.9/32', 'dev', 'tunnel');
      await told('present', 'address', (it) => it.kind === 'address' && it.address.address.length === 4);
      const kinds = new Set(events.map((it) => ('object' in it ? it.object.kind : it.event)));
      assert.deepEqual([...kinds], ['address']);
    });

    it('reports an overrun, and continues', async () => {
      listen(4096);
      ipBatch(Array.from({ length: 30 }, (_, i) => `link add d${i} group 77 type bridge`));
      await until(({ event }) => event === 'overrun');
      ip('link', 'del', 'group', '77');
      // Also the removals may be more than the buffer holds.
      const isLo = (it: RouteEvent): boolean =>
        it.event === 'present' && it.object.kind === 'link' && it.object.link.name === 'lo';
      for (let i = 0; !events.some(isLo) && i < 50; i++) {
        ip('link', 'set', 'lo', i % 2 === 0 ? 'down' : 'up');
        await sleep(10);
      }
      assert.ok(events.some(isLo));
    });

    it('rejects wrong options at once', () => {
      assert.throws(() => new RouteMonitor({ receiveBuffer: -1 }, () => {}), RangeError);
      assert.throws(() => new RouteMonitor({}, 'no function' as never), TypeError);
    });
  });
});
