import assert from 'node:assert/strict';
import type { Link } from 'nftables-napi';
import { BARE } from '../../test/fake/fake-links.ts';
import { vrfsOf, WatchedVrfs } from './vrfs.ts';

const link = (name: string, rest: Partial<Link> = {}): Link => ({
  ...BARE,
  index: 2,
  name,
  kind: 'vrf',
  isUp: true,
  ...rest,
});

describe('devices of VRFs', () => {
  it('are links of that kind alone', () => {
    const links = [link('red'), link('blue.7'), link('eth0', { kind: null }), link('v0', { kind: 'veth' })];
    assert.deepEqual(vrfsOf(links), ['blue.7', 'red']);
  });

  it('have no queue, behind which a packet may leave without its second pass', () => {
    assert.deepEqual(vrfsOf([link('red', { hasQueue: true }), link('blue')]), ['blue']);
  });

  it('are up: one that is down has a queue, and reports none', () => {
    assert.deepEqual(vrfsOf([link('red', { isUp: false }), link('blue')]), ['blue']);
  });

  it('have no name that is a pattern or an option', () => {
    const patterns = ['red+', 'red*', '+', '-o', '!red', 'a"b', 'a b', 'rote-größe', ''];
    assert.deepEqual(vrfsOf(patterns.map((name) => link(name))), []);
  });

  it('are reported when they change, and only then', () => {
    const watched = new WatchedVrfs();
    let changes = 0;
    const stop = watched.listen(() => changes++);
    watched.update([link('eth0', { kind: null })]);
    assert.deepEqual([watched.now(), changes], [[], 0]);
    watched.update([link('red'), link('blue')]);
    watched.update([link('blue'), link('red')]);
    assert.deepEqual([watched.now(), changes], [['blue', 'red'], 1]);
    watched.update([link('blue'), link('red', { hasQueue: true })]);
    assert.deepEqual([watched.now(), changes], [['blue'], 2]);
    stop();
    watched.update([]);
    assert.deepEqual([watched.now(), changes], [[], 2]);
  });
});
