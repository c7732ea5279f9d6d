import assert from 'node:assert/strict';
import type { NetPeer, Netstate } from '../../../apis/egress/netstate.ts';
import { FakeWireGuard, keyText } from '../../../test/fake/fake-routes.ts';
import { NO_NETSTATE } from '../render/netstate.ts';
import { WireGuardPeers } from './wireguard.ts';

const LINK = 'nodewall-wg';
const INDEX = 7;

const peer = (number: number, endpoint = `10.0.0.${number}`): NetPeer => ({
  link: LINK,
  key: keyText(number),
  endpoint,
  address: `fd6e:6f64:6577:6c6c::${number}`,
});

const wanted = (...peers: readonly NetPeer[]): Netstate => ({
  ...NO_NETSTATE,
  links: [{ kind: 'wireguard', name: LINK, group: 1, mtu: 1440 }],
  peers,
});

function setUp(kernel = new FakeWireGuard()) {
  const own = new WireGuardPeers(kernel);
  const apply = (netstate: Netstate, removals = true) =>
    own.apply(netstate, (link) => (link === LINK ? INDEX : undefined), removals);
  const keys = () =>
    kernel.devices.get(INDEX)?.peers.map(({ publicKey }) => Buffer.from(publicKey).toString('base64'));
  return { kernel, apply, keys };
}

describe('WireGuardPeers', () => {
  it('gives the device its key, port and peers, and then does nothing', async () => {
    const { kernel, apply, keys } = setUp();
    const { operations, problems } = await apply(wanted(peer(2), peer(3, '2001:db8::3')));
    assert.deepEqual(problems, []);
    assert.deepEqual(operations, [
      'wg set nodewall-wg listen-port 7792 private-key FILE',
      `wg set nodewall-wg peer ${keyText(2)} endpoint 10.0.0.2:7792 allowed-ips fd6e:6f64:6577:6c6c::2/128`,
      `wg set nodewall-wg peer ${keyText(3)} endpoint [2001:db8::3]:7792 allowed-ips fd6e:6f64:6577:6c6c::3/128`,
    ]);
    assert.deepEqual(keys(), [keyText(2), keyText(3)]);
    assert.deepEqual((await apply(wanted(peer(2), peer(3, '2001:db8::3')))).operations, []);
    assert.equal(kernel.changes.length, 1);
  });

  it('changes one peer and leaves the sessions of the others alone, in the next process too', async () => {
    const { kernel, apply } = setUp();
    await apply(wanted(peer(2), peer(3)));
    const next = setUp(kernel);
    assert.deepEqual((await next.apply(wanted(peer(2), peer(3)))).operations, []);
    await next.apply(wanted(peer(2), peer(3, '10.0.0.33')));
    const last = kernel.changes.at(-1);
    assert.equal(last?.device, undefined);
    assert.deepEqual(last?.removed, []);
    assert.equal(last?.peers.length, 1);
  });

  it('removes no peer before the rules are there', async () => {
    const { apply, keys } = setUp();
    await apply(wanted(peer(2)));
    await apply(wanted(peer(3)), false);
    assert.deepEqual(keys(), [keyText(2), keyText(3)]);
    assert.deepEqual((await apply(wanted(peer(3)))).operations, [
      `delete: wg set ${LINK} peer ${keyText(2)}`,
    ]);
    assert.deepEqual(keys(), [keyText(3)]);
  });

  it('repairs what others change: a peer, an address, the port; not where a peer moved to', async () => {
    const { kernel, apply } = setUp();
    await apply(wanted(peer(2), peer(3)));
    const device = kernel.devices.get(INDEX) ?? assert.fail();
    const [one, other] = device.peers;
    const moved = { ...(one ?? assert.fail()), endpoint: Uint8Array.of(10, 0, 0, 99) };
    kernel.devices.set(INDEX, { ...device, peers: [moved, other ?? assert.fail()] });
    assert.deepEqual((await apply(wanted(peer(2), peer(3)))).operations, []);
    const wide = [{ address: new Uint8Array(16), prefixLength: 0 }];
    for (const changed of [
      { ...device, peers: [moved] },
      { ...device, peers: [{ ...moved, allowed: wide }, other ?? assert.fail()] },
      { ...device, port: 1 },
      { ...device, publicKey: new Uint8Array(32) },
    ]) {
      kernel.devices.set(INDEX, changed);
      assert.notDeepEqual((await apply(wanted(peer(2), peer(3)))).operations, []);
      assert.deepEqual((await apply(wanted(peer(2), peer(3)))).operations, []);
    }
  });

  it('leaves a peer alone that moved after this process found it as it was set', async () => {
    const { kernel, apply } = setUp();
    await apply(wanted(peer(2)));
    const next = setUp(kernel);
    assert.deepEqual((await next.apply(wanted(peer(2)))).operations, []);
    const device = kernel.devices.get(INDEX) ?? assert.fail();
    const peers = device.peers.map((one) => ({ ...one, endpoint: Uint8Array.of(10, 0, 0, 99) }));
    kernel.devices.set(INDEX, { ...device, peers });
    assert.deepEqual((await next.apply(wanted(peer(2)))).operations, []);
  });

  it('starts anew with another key', async () => {
    const { kernel, apply, keys } = setUp();
    await apply(wanted(peer(2)));
    kernel.becomes(9);
    await apply(wanted(peer(2)));
    assert.equal(kernel.changes.at(-1)?.device?.replacePeers, true);
    assert.deepEqual(keys(), [keyText(2)]);
  });

  it('says what the kernel refuses, and asks nothing without a device', async () => {
    const { kernel, apply } = setUp();
    assert.deepEqual(await apply(NO_NETSTATE), { operations: [], problems: [] });
    kernel.change = async () => {
      throw new Error('denied');
    };
    const { problems } = await apply(wanted(peer(2)));
    assert.deepEqual(problems, [{ code: 'UNKNOWN', message: 'wg set nodewall-wg: denied' }]);
    assert.doesNotMatch(JSON.stringify(problems), new RegExp(keyText(101).slice(0, 8)));
  });
});
