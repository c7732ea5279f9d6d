import assert from 'node:assert/strict';
import type { RouteObject } from 'nftables-napi';
import { createLogger } from 'winston';
import { OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import type { OwnedAddress } from '../../../apis/egress/node-egress.ts';
import { parseAddress } from '../../../lib/net/address.ts';
import { NO_MEMBERS, packAddress, toMemberSet } from '../../../lib/net/member-set.ts';
import { systemClock } from '../../../lib/process/clock.ts';
import { FakeElements } from '../../../test/fake/fake-elements.ts';
import { FakeRoutes, toRead } from '../../../test/fake/fake-routes.ts';
import { FloatingLate } from '../floating-kernel.ts';
import { arpAnnouncements } from './conflict-frames.ts';
import { FloatingAddresses } from './floating-addresses.ts';
import { LiveSets } from './live-sets.ts';

const [V4, V6] = ['192.0.2.50', '2001:db8::50'];
const BOTH: readonly OwnedAddress[] = [V4, V6].map((address) => ({ address, announce: 'L2' }));
const FOREIGN = Buffer.from('020000000009', 'hex');
const log = createLogger({ silent: true });

function bytes(text: string): Uint8Array {
  return packAddress(parseAddress(text) ?? assert.fail(text));
}

function link(index: number, name: string, mac = Buffer.from('0e0000000001', 'hex')): RouteObject {
  const rest = { kind: null, group: 0, mtu: 1500, isUp: true, vxlan: null };
  return { kind: 'link', link: { index, name, mac, ...rest } };
}

function address(on: number, text: string, prefixLength: number, metric = 0): RouteObject {
  const flags = { noPrefixRoute: false, noDad: false, deprecated: false };
  const rest = { prefixLength, protocol: 0, metric, ...flags };
  return { kind: 'address', address: { link: on, address: bytes(text), ...rest } };
}

for (const release of ['5.10', '6.1'] as const)
  describe(`FloatingAddresses on Linux ${release}`, () => {
    const parts = () => {
      const elements = new FakeElements(systemClock);
      const routes = new FakeRoutes();
      routes.keepsProtocols = release === '6.1';
      routes.objects.push(link(2, 'eth0'), link(3, 'eth1'), address(2, '198.51.100.1', 24));
      routes.objects.push(
        address(3, '192.0.2.1', 24),
        address(3, '2001:db8::1', 64),
        address(2, '192.0.0.1', 16),
      );
      const frames: Uint8Array[] = [];
      const live = new LiveSets({ netlink: elements, timed: elements, clock: systemClock, committed() {} });
      const open = (index: number) => {
        assert.equal(index, 3);
        return { send() {}, receive: () => frames.splice(0), close() {} };
      };
      const silence: { problem: Error | null } = { problem: null };
      const speaks = (): Error | null => silence.problem;
      const make = () => new FloatingAddresses({ live, port: routes, open, clock: systemClock, log, speaks });
      const made: FloatingAddresses[] = [];
      const fresh = () => {
        const one = make();
        made.push(one);
        return one;
      };
      const present = () =>
        routes.objects.flatMap((it) =>
          it.kind === 'address' && it.address.metric === OWN_NETWORK.floating.metric ? [it.address] : [],
        );
      const close = (): void => {
        for (const one of made) one.close();
      };
      return { elements, routes, frames, silence, fresh, present, close };
    };
    const soon = (): number => systemClock.now() + 10_000;

    it('takes addresses on the interface with the smallest subnet that has them, and drops them', async () => {
      const { elements, fresh, present, close } = parts();
      const addresses = fresh();
      assert.deepEqual(await addresses.assign(BOTH, soon()), []);
      assert.deepEqual(
        present().map((it) => [it.link, it.prefixLength, it.noPrefixRoute, it.noDad, it.deprecated]),
        [
          [3, 32, true, false, false],
          [3, 128, true, true, true],
        ],
      );
      assert.equal(Object.keys(elements.alive()).length, 3);
      assert.deepEqual(await addresses.renew([{ address: V4, until: soon() }]), []);
      await addresses.drop([V4, V6]);
      assert.deepEqual([present(), elements.alive()], [[], {}]);
      await addresses.drop([V4]);
      close();
    });

    it('takes none of them if another host has one, or if the time is over', async () => {
      const { elements, frames, fresh, present, close } = parts();
      const addresses = fresh();
      frames.push(...arpAnnouncements(FOREIGN, V4));
      assert.deepEqual(await addresses.assign(BOTH, soon()), [{ address: V4, mac: '02:00:00:00:00:09' }]);
      await assert.rejects(addresses.assign(BOTH, systemClock.now() + 20), FloatingLate);
      assert.deepEqual([present(), elements.alive()], [[], {}]);
      close();
    });

    it('lets no packet leave with an IPv6 address before the kernel takes the answers', async () => {
      const { elements, routes, fresh, close } = parts();
      const alive: number[] = [];
      const read = routes.routes.bind(routes);
      routes.routes = async (filter) => {
        alive.push(Object.keys(elements.alive()).length);
        return await read(filter);
      };
      routes.looksBeforeLocal = 3;
      assert.deepEqual(await fresh().assign(BOTH, soon()), []);
      assert.deepEqual(alive, [0, 0, 0, 0]);
      assert.equal(Object.keys(elements.alive()).length, 3);
      routes.looksBeforeLocal = Number.POSITIVE_INFINITY;
      await assert.rejects(fresh().assign(BOTH, systemClock.now() + 50), /before the addresses were there/);
      close();
    });

    it('takes no IPv4 address without the table that keeps this node silent for it', async () => {
      const { elements, silence, fresh, present, close } = parts();
      const addresses = fresh();
      silence.problem = new Error('no memory');
      await assert.rejects(addresses.assign(BOTH, soon()), /table arp nodewall/);
      assert.deepEqual([present(), elements.alive()], [[], {}]);
      assert.deepEqual(await addresses.assign(BOTH.slice(1), soon()), []);
      close();
    });

    it('leaves nothing alive if the address cannot be put, and says why', async () => {
      const { elements, routes, fresh, present, close } = parts();
      const addresses = fresh();
      routes.refusal = { kind: 'address', code: 'EPERM', text: 'not permitted' };
      await assert.rejects(addresses.assign(BOTH, soon()), /ip addr add 192\.0\.2\.50.*not permitted/);
      routes.refusal = { kind: 'link', code: 'EOPNOTSUPP', text: 'Unknown device type' };
      const routed = [{ address: V4, announce: 'None' }] as const;
      await assert.rejects(
        addresses.assign(routed, soon()),
        /no dummy device nodewall-eip: .*Unknown device type/,
      );
      routes.refusal = null;
      assert.deepEqual([present(), elements.alive()], [[], {}]);
      assert.deepEqual(await addresses.assign(routed, soon()), []);
      const dummy = routes.objects.find((it) => it.kind === 'link' && it.link.name === 'nodewall-eip');
      assert.equal(present()[0]?.link, dummy?.kind === 'link' ? dummy.link.index : null);
      routes.objects.push(address(2, '192.0.2.51', 24));
      const foreign = [{ address: '192.0.2.51', announce: 'L2' }] as const;
      await assert.rejects(
        addresses.assign(foreign, soon()),
        /192\.0\.2\.51 is on eth0, and not by nodewall/,
      );
      close();
    });

    it('a new process goes on with what is whole, and removes the rest', async () => {
      const { elements, routes, fresh, present, close } = parts();
      await fresh().assign(BOTH, soon());
      const at = routes.objects.findIndex((it) => it.kind === 'address' && it.address.prefixLength === 128);
      routes.objects.splice(at, 1);
      routes.objects.push(address(3, '192.0.2.60', 32, OWN_NETWORK.floating.metric));
      const addresses = fresh();
      assert.deepEqual(
        (await addresses.read()).map((one) => one.address),
        [V4],
      );
      assert.deepEqual([present().length, Object.keys(elements.alive()).length], [1, 2]);
      close();
    });

    it('drops what is of no pool any more, before rules that would not know of it', async () => {
      const { elements, fresh, present, close } = parts();
      const addresses = fresh();
      await addresses.assign(BOTH, soon());
      await addresses.leave(toMemberSet([], [V4, V6]));
      assert.equal(present().length, 2);
      await addresses.leave(toMemberSet([], [V6]));
      assert.deepEqual([present().length, Object.keys(elements.alive()).length], [1, 1]);
      await addresses.leave(NO_MEMBERS);
      assert.deepEqual([present(), elements.alive()], [[], {}]);
      close();
    });

    it('puts back what somebody removes, and nothing that was dropped', async () => {
      const { routes, fresh, present, close } = parts();
      const addresses = fresh();
      await addresses.assign(BOTH, soon());
      const [first] = present();
      const at = routes.objects.findIndex((it) => it.kind === 'address' && it.address === first);
      const [object] = routes.objects.splice(at, 1);
      addresses.changed([{ event: 'removed', object: toRead(object ?? assert.fail()) }]);
      while (present().length < 2) await new Promise((resolve) => setImmediate(resolve));
      await addresses.drop([V4, V6]);
      addresses.changed([{ event: 'overrun' }]);
      await new Promise((resolve) => setTimeout(resolve, 10));
      assert.deepEqual(present(), []);
      close();
    });
  });
