import assert from 'node:assert/strict';
import type { NamedSet } from '../ruleset.ts';
import { toChainName, toSetName } from './tables.ts';

const NAMES = [
  ['ingress', 'NODEWALL-ingress'],
  ['ingress-0123456789-policy-rule', 'NODEWALL-ingress-0123456789'],
  ['nodeport-0123456789-abcdef0123-rule', 'NODEWALL-nodeport-0123456789'],
  ['ingress-tcp-0123456789-80-443', 'NODEWALL-in-tcp-0123456789'],
  ['ingress-failsafe-tcp', 'NODEWALL-in-fs-tcp'],
  ['ingress-baseline-failsafe-sctp', 'NODEWALL-in-base-fs-sctp'],
] as const;

describe('names in iptables and ipset', () => {
  for (const [name, short] of NAMES) {
    it(`${name} is ${short}`, () => assert.equal(toChainName(name), short));
  }

  it('fit the limit and stay distinct when they are cut', () => {
    const cut = ['0123456789', '0123456780'].map((hash) =>
      toChainName(`egress-baseline-failsafe-sctp-${hash}-x`),
    );
    assert.equal(new Set(cut).size, 2);
    for (const name of cut) assert.match(name, /^NODEWALL-out-base-[0-9a-f]{10}$/);
    for (const name of cut) assert.ok(name.length <= 28, name);
  });

  it('of sets contain family and type', () => {
    const set = (name: string, key: NamedSet['key']): NamedSet => {
      const members = { singles: new Uint8Array(), prefixes: [] };
      return { name, family: 6, key, interval: false, members, comment: null };
    };
    const peers = set('peers-0123456789ab-v6', 'address');
    assert.equal(toSetName(peers, 'hash:ip'), 'nodewall-peers-0123456789ab-h6');
    assert.equal(toSetName(peers, 'hash:net'), 'nodewall-peers-0123456789ab-n6');
    const services = toSetName(set('services-0123456789ab-v6', 'service'), 'hash:ip,port');
    assert.equal(services, 'nodewall-service-0123456789ab-6');
    assert.equal(services.length, 31);
    const long = ['a', 'b'].map((end) =>
      toSetName(set(`peers-${'x'.repeat(30)}${end}-v6`, 'address'), 'hash:ip'),
    );
    assert.equal(new Set(long).size, 2);
    assert.ok(long.every((name) => name.length <= 31));
  });
});
