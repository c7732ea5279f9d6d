/**
 * The kernel's network configuration is the wanted one, whatever it was, and whoever changes it.
 */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { netstateText } from '../../agent/egress/apply/net-object.ts';
import { NO_NETSTATE } from '../../agent/egress/render/netstate.ts';
import type { Netstate } from '../../apis/egress/netstate.ts';
import { netstates } from '../generate/netstate.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { assertKernelHas, Keeper, SOON } from './ip-netstate.ts';
import { kernelSuite } from './kernel-suite.ts';

const STATES = 24;
const KILLS = 4;
const LINK = 'nodewall-egress';

kernelSuite('network configuration of egress gateways', () => {
  let namespace: Namespace;
  const ip = (command: string) => namespace.run(['ip', ...command.split(' ')]);
  const soon = async (netstate: Netstate, what: string): Promise<void> => {
    const end = performance.now() + SOON;
    for (;;) {
      try {
        return await assertKernelHas(namespace, netstate, what);
      } catch (error) {
        if (performance.now() > end) throw error;
        await sleep(20);
      }
    }
  };
  beforeEach(async () => {
    namespace = await createNamespace('egress');
    await ip('link set lo up'); // next hops without a link are on it
    await namespace.run(['sysctl', '-w', 'net.ipv6.conf.default.disable_ipv6=1']);
  });
  afterEach(() => namespace.close());

  const full: Netstate = fc
    .sample(netstates, { numRuns: 300, seed: 7 })
    .reduce((most, it) => (it.routes.length > most.routes.length ? it : most));
  it(`makes ${STATES} random states out of each other, exactly, also where it is killed amid a change`, async () => {
    let keeper = new Keeper(namespace);
    for (const [i, netstate] of fc.sample(netstates, STATES).entries()) {
      const seen = JSON.stringify(netstate);
      if (i % Math.floor(STATES / KILLS) === 2) {
        keeper.write(netstate);
        await sleep(i % 5);
        await keeper.kill();
        keeper = new Keeper(namespace);
      } else {
        const { problems, operations } = await keeper.apply(netstate);
        assert.deepEqual(problems, [], seen);
        await assertKernelHas(namespace, netstate, `${seen}\n${operations.join('\n')}`);
      }
    }
    assert.deepEqual((await keeper.apply(full)).problems, []);
    await assertKernelHas(namespace, full, 'full');
    assert.deepEqual((await keeper.apply(full)).operations, []);
    assert.deepEqual((await keeper.apply(NO_NETSTATE)).problems, []);
    await assertKernelHas(namespace, NO_NETSTATE, 'nothing');
  });

  it('makes the same as its text, typed by hand', async () => {
    await namespace.run(['sh', '-e'], { stdin: netstateText({ ...full, addresses: [] }) });
    await assertKernelHas(namespace, { ...full, addresses: [] }, 'typed');
    const { operations } = await new Keeper(namespace).apply({ ...full, addresses: [] });
    assert.deepEqual(operations, []);
  });

  it('needs no writable /proc/sys but where IPv6 is off by default, and says so', async () => {
    const readOnly = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"';
    const keeper = new Keeper(namespace, ['unshare', '--mount', 'sh', '-ec', readOnly, 'sh']);
    const { problems } = await keeper.apply(full);
    assert.match(
      problems[0]?.message ?? '',
      /disable_ipv6=0: EROFS.* Set it on the host, and net\/ipv6\/conf\/default\/disable_ipv6 /,
    );
    // Linux 5.10 does not say why.
    assert.match(problems[1]?.message ?? '', /^ip .*(IPv6 is disabled|Permission denied)/);
    await namespace.run(['sysctl', '-w', `net.ipv6.conf.${LINK}.disable_ipv6=0`]);
    assert.deepEqual((await keeper.apply(full)).problems, []);
    await assertKernelHas(namespace, full, 'read-only');
  });

  it('puts back at once what somebody removes or changes', async () => {
    const keeper = new Keeper(namespace);
    await keeper.apply(full);
    const slot = full.routes.find(({ destination }) => destination === '0.0.0.0/0');
    const peer = full.neighbours.find(({ kind }) => kind === 'fdb');
    const single = full.nexthops.find((it) => 'via' in it);
    assert.ok(slot && peer && single && 'via' in single);
    const changes = [
      `link set ${LINK} mtu 1300`,
      `link set ${LINK} group 5`,
      `link set ${LINK} address 0e:00:00:00:00:77`,
      `addr del 169.254.74.12/32 dev ${LINK}`,
      `neigh flush dev ${LINK} nud permanent`,
      `neigh replace ${single.via} lladdr 0e:00:00:00:00:88 dev ${LINK} nud stale`,
      `nexthop del id ${slot.nexthop}`,
      `nexthop replace id ${single.id} via fe80::99 dev ${LINK} proto 119`,
      'nexthop flush proto 119',
      `route del default table ${slot.table}`,
      `-6 route del default table ${slot.table}`,
      `route add 203.0.113.0/24 nhid ${slot.nexthop} table ${slot.table} proto 119`,
      'rule del pref 70',
      'rule del pref 71',
      'rule add pref 71 nop protocol kernel',
      '-6 rule flush',
      `link set ${LINK} down`,
      `link set ${LINK} type vxlan learning`,
      `link del ${LINK}`,
    ];
    for (const change of changes) {
      await ip(change);
      await soon(full, change);
    }
    await namespace.run(['bridge', 'fdb', 'del', peer.mac, 'dev', LINK]);
    await soon(full, 'bridge fdb del');
    assert.ok(await keeper.next(({ drifted }) => drifted ?? null));
  });

  it('leaves the objects of others in place, names them, and takes their place when they are gone', async () => {
    const slot = full.routes.find(({ destination }) => destination === '0.0.0.0/0');
    assert.ok(slot);
    const foreign = [
      ['link add nodewall-egress type bridge', 'link del nodewall-egress'],
      [`nexthop add id ${slot.nexthop} blackhole proto static`, `nexthop del id ${slot.nexthop}`],
      [
        `route add blackhole default table ${slot.table} proto static`,
        `route del blackhole default table ${slot.table}`,
      ],
      ['rule add pref 71 fwmark 9 lookup 9', 'rule del pref 71 fwmark 9 lookup 9'],
    ] as const;
    for (const [make, remove] of foreign) {
      const keeper = new Keeper(namespace);
      await ip(make);
      const before = (await namespace.run(['sh', '-c', 'ip rule; ip nexthop; ip route show table all']))
        .stdout;
      const { problems } = await keeper.apply(full);
      assert.equal(problems.length, 1, JSON.stringify(problems));
      assert.match(problems[0]?.code ?? '', /FOREIGN|EEXIST/);
      const after = (await namespace.run(['sh', '-c', 'ip rule; ip nexthop; ip route show table all']))
        .stdout;
      for (const line of before.trim().split('\n'))
        assert.ok(after.includes(line.trim()), `${make}: ${line}`);
      await ip(remove);
      // It may have looked while the object was being removed, and look again.
      await keeper.next(({ problems: left }) => (left?.length === 0 ? left : null));
      await soon(full, remove);
      await keeper.apply(NO_NETSTATE);
      await keeper.kill();
    }
  });
});
