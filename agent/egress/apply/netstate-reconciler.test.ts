import assert from 'node:assert/strict';
import type { RouteObject } from 'nftables-napi';
import { type Netstate, OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import { FakeRoutes, FakeWireGuard, toRead } from '../../../test/fake/fake-routes.ts';
import { EXAMPLE } from '../../../test/generate/netstate.ts';
import { NO_NETSTATE } from '../render/netstate.ts';
import type { SysctlPort } from './host-settings.ts';
import { NetstateReconciler } from './netstate-reconciler.ts';

const SYSCTL = 'net/ipv4/conf/nodewall-egress/rp_filter';
const [NEXTHOP] = OWN_NETWORK.nexthops;

function setUp() {
  const kernel = new FakeRoutes();
  const settings = new Map([[SYSCTL, '0']]);
  const sysctls: SysctlPort = {
    read: (path) => settings.get(path) ?? null,
    async write(path, value) {
      settings.set(path, value);
    },
  };
  return {
    kernel,
    settings,
    sysctls,
    reconciler: new NetstateReconciler(kernel, sysctls, new FakeWireGuard()),
  };
}

const lo: RouteObject = {
  kind: 'link',
  link: {
    index: 1,
    name: 'lo',
    kind: null,
    group: 0,
    mtu: 65536,
    mac: new Uint8Array(6),
    isUp: true,
    vxlan: null,
  },
};

describe('NetstateReconciler', () => {
  it('makes links in one exchange and the rest in another, then only what is different', async () => {
    const { kernel, settings, reconciler } = setUp();
    const first = await reconciler.apply(EXAMPLE);
    assert.deepEqual(first.problems, []);
    assert.deepEqual(
      kernel.exchanges.map(({ length }) => length),
      [1, 11],
    );
    assert.equal(settings.get(SYSCTL), '2');
    assert.deepEqual((await reconciler.apply(EXAMPLE)).operations, []);
    const { readings } = kernel;
    const moved = { id: NEXTHOP + 1, group: [NEXTHOP + 3] };
    const peer = { id: NEXTHOP + 3, via: 'fe80::9', link: 'nodewall-egress' };
    const { operations } = await reconciler.apply({
      ...EXAMPLE,
      nexthops: [...EXAMPLE.nexthops.slice(1), moved, peer],
    });
    assert.deepEqual(operations, [
      `ip nexthop add id ${NEXTHOP + 3} via fe80::9 dev nodewall-egress proto 119`,
      `ip nexthop add id ${NEXTHOP + 1} group ${NEXTHOP + 3} proto 119`,
    ]);
    assert.deepEqual(kernel.exchanges.at(-1), ['add nexthop', 'replace nexthop']);
    assert.equal(kernel.readings, readings, 'read again');
  });

  it('removes backwards, and what is not its own stays', async () => {
    const { kernel, reconciler } = setUp();
    kernel.put(lo);
    await reconciler.apply(EXAMPLE);
    const { problems } = await reconciler.apply(NO_NETSTATE);
    assert.deepEqual(problems, []);
    assert.deepEqual(
      kernel.exchanges.at(-1)?.map((change) => change.replace('delete ', '')),
      [
        ...['rule', 'rule', 'rule', 'rule', 'route', 'route', 'nexthop', 'nexthop'],
        ...['neighbour', 'neighbour', 'address', 'link'],
      ],
    );
    assert.deepEqual(kernel.objects, [lo]);
  });

  it('removes nothing yet where it is asked to', async () => {
    const { kernel, reconciler } = setUp();
    await reconciler.apply(EXAMPLE);
    const before = kernel.objects.length;
    assert.deepEqual((await reconciler.apply(NO_NETSTATE, { removals: false })).operations, []);
    assert.deepEqual((await reconciler.verify()).operations, []);
    assert.equal(kernel.objects.length, before);
    await reconciler.apply(NO_NETSTATE);
    assert.deepEqual(kernel.objects, []);
  });

  it('finishes what another process began, whatever it was', async () => {
    const whole = setUp();
    await whole.reconciler.apply(EXAMPLE);
    for (let cut = 0; cut < whole.kernel.objects.length; cut++) {
      const { kernel, sysctls, reconciler } = setUp();
      await reconciler.apply(EXAMPLE);
      for (const object of kernel.objects.slice(cut)) kernel.remove((it) => it === object);
      const { problems } = await new NetstateReconciler(kernel, sysctls, new FakeWireGuard()).apply(EXAMPLE);
      assert.deepEqual(problems, []);
      assert.equal(kernel.objects.length, whole.kernel.objects.length);
    }
  });

  it('makes a link anew whose end of the tunnel moves, with all that is on it', async () => {
    const { kernel, reconciler } = setUp();
    await reconciler.apply(EXAMPLE);
    const [link] = EXAMPLE.links;
    assert.ok(link?.kind === 'vxlan');
    const moved = { ...EXAMPLE, links: [{ ...link, local: 'fd00::1' }] };
    const { problems, operations } = await reconciler.apply(moved);
    assert.deepEqual(problems, []);
    assert.match(operations[0] ?? '', /^delete: ip link add nodewall-egress .* local 10\.0\.0\.1 /);
    assert.deepEqual((await reconciler.verify()).operations, []);
    assert.equal(kernel.objects.length, 12);
  });

  it('changes group and MTU of a link in place', async () => {
    const { kernel, reconciler } = setUp();
    await reconciler.apply(EXAMPLE);
    const [link] = EXAMPLE.links;
    assert.ok(link?.kind === 'vxlan');
    await reconciler.apply({ ...EXAMPLE, links: [{ ...link, mtu: 1400, group: 11 }] });
    assert.deepEqual(kernel.exchanges.at(-1), ['replace link']);
  });

  it('does not touch objects of others with its names, nor make what needs them', async () => {
    const { kernel, reconciler } = setUp();
    const bridge = { ...lo.link, index: 7, name: 'nodewall-egress', kind: 'bridge' };
    kernel.put({ kind: 'link', link: bridge });
    const { problems } = await reconciler.apply(EXAMPLE);
    assert.equal(problems.length, 1);
    assert.match(
      problems[0]?.message ?? '',
      /another program made what only nodewall makes: ip link add nodewall-egress type bridge\. Remove it .*not made meanwhile: ip link add .*ip route add/,
    );
    // Rules lead to empty tables: the guards of the nft table drop what they do not steer.
    assert.deepEqual([...new Set(kernel.exchanges.flat())], ['add rule']);
  });

  it('says what the kernel refused, why, and the way out; and reads everything again', async () => {
    const { kernel, reconciler } = setUp();
    kernel.refusal = { kind: 'link', code: 'EOPNOTSUPP', text: 'Unknown device type' };
    const { operations, problems } = await reconciler.apply(EXAMPLE);
    assert.ok(!operations.some((text) => text.startsWith('ip link add')), 'only what was changed');
    assert.equal(
      problems[0]?.message,
      'ip link add nodewall-egress address 0e:00:00:00:00:01 mtu 1450 group 10 up type vxlan id 7412 dstport 7790 local 10.0.0.1 nolearning noudpcsum: Unknown device type. This kernel has no vxlan devices: load its module (modprobe vxlan), which some systems have in a package of further modules',
    );
    kernel.refusal = null;
    assert.deepEqual((await reconciler.apply(EXAMPLE)).problems, []);
    assert.deepEqual((await reconciler.verify()).operations, []);
  });

  it('sends nothing through a tunnel whose device below is missing, or has no address', async () => {
    const ends = ['1', '2'].map((end) => `fd6e:6f64:6577:6c6c::${end}`);
    const [local = '', remote = ''] = ends;
    const [vxlan] = EXAMPLE.links;
    assert.ok(vxlan?.kind === 'vxlan');
    const below = { link: 'nodewall-wg', address: local, prefixLength: 64 };
    const encrypted: Netstate = {
      ...EXAMPLE,
      links: [
        { ...vxlan, local },
        { kind: 'wireguard', name: 'nodewall-wg', group: 1, mtu: 1440 },
      ],
      addresses: [...EXAMPLE.addresses, below],
      neighbours: EXAMPLE.neighbours.map((it) => (it.kind === 'fdb' ? { ...it, remote } : it)),
    };
    for (const kind of ['link', 'address'] as const) {
      const { kernel, reconciler } = setUp();
      await reconciler.apply(EXAMPLE);
      const isBelow = (change: RouteObject): boolean =>
        change.kind === 'link'
          ? change.link.name === 'nodewall-wg'
          : change.kind === 'address' && change.address.prefixLength === 64;
      kernel.refusal = { kind, code: 'EOPNOTSUPP', text: 'no', is: isBelow };
      const { problems } = await reconciler.apply(encrypted, { removals: false });
      assert.equal(problems.length, 1, JSON.stringify(problems));
      assert.match(problems[0]?.message ?? '', /nodewall-wg.*: no/);
      const ways = () => kernel.objects.filter((it) => /neighbour|nexthop|route/.test(it.kind)).length;
      assert.equal(ways(), 0, kind);
      kernel.refusal = null;
      assert.deepEqual((await reconciler.verify()).problems, []);
      assert.equal(ways(), 6, kind);
      assert.deepEqual((await reconciler.verify()).operations, []);
    }
  });

  it('reads everything again after a call that failed as a whole', async () => {
    const { kernel, reconciler } = setUp();
    await reconciler.apply(EXAMPLE);
    const change = kernel.change.bind(kernel);
    kernel.change = async (changes) => {
      await change(changes.slice(0, 2));
      throw new Error('ENOBUFS');
    };
    await assert.rejects(reconciler.apply(NO_NETSTATE), /ENOBUFS/);
    kernel.change = change;
    assert.deepEqual((await reconciler.apply(EXAMPLE)).problems, []);
    assert.equal(kernel.objects.length, 12);
  });

  it('names a setting that it cannot write', async () => {
    const kernel = new FakeRoutes();
    const refuses = async () => {
      throw Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' });
    };
    const reconciler = new NetstateReconciler(
      kernel,
      { read: () => '0', write: refuses },
      new FakeWireGuard(),
    );
    const { problems } = await reconciler.apply(EXAMPLE);
    assert.match(
      problems[0]?.message ?? '',
      /^sysctl -w net\/ipv4\/conf\/.*: EROFS.*\/proc\/sys is read-only for the agent\. Set it on the host, and net\/ipv4\/conf\/default\/rp_filter /,
    );
  });

  it('knows its own objects in events, and others', async () => {
    const { kernel, reconciler } = setUp();
    await reconciler.apply(EXAMPLE);
    for (const object of kernel.objects.map(toRead)) {
      assert.equal(reconciler.isExpected({ event: 'present', object }), true, object.kind);
      assert.equal(reconciler.isExpected({ event: 'removed', object }), false, object.kind);
    }
    assert.equal(reconciler.isExpected({ event: 'removed', object: toRead(lo) }), true);
    const rule = kernel.objects.find((it) => it.kind === 'rule' && it.rule.action === 'table');
    assert.ok(rule?.kind === 'rule');
    const other = { ...rule, rule: { ...rule.rule, mark: 5 } };
    assert.equal(reconciler.isExpected({ event: 'present', object: other }), false);
    const far = { ...rule, rule: { ...rule.rule, priority: 100 } };
    assert.equal(reconciler.isExpected({ event: 'present', object: far }), true);
  });
});
