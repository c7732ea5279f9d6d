import assert from 'node:assert/strict';
import { parseCidr } from '../../apis/address.ts';
import type { AddressSet, CompiledRule } from '../../apis/compiled.ts';
import { toMemberSet } from '../../apis/memberset.ts';
import { ruleText } from './nfttext.ts';
import { ruleChain } from './rulechain.ts';

const block = (text: string) => ({ cidr: parseCidr(text)?.cidr ?? assert.fail(text), except: [] });

function addresses(dynamic: boolean, blocks: string[], singles: string[] = []): AddressSet {
  return { id: 'abc', description: 'words', dynamic, members: toMemberSet(blocks.map(block), singles) };
}

function rule(
  changes: Partial<CompiledRule> = {},
  direction: 'ingress' | 'egress' = 'ingress',
): CompiledRule {
  return {
    id: 'id',
    source: {
      apiGroup: 'nodewall.io',
      policy: 'p',
      uid: '',
      generation: 0,
      direction,
      ruleIndex: 0,
      rule: 'r',
    },
    tier: 'application',
    tierPriority: 250,
    priority: 5,
    action: 'Drop',
    mode: 'Enforce',
    traffic: 'Host',
    addressSets: [],
    services: [],
    ...changes,
  };
}

const texts = (one: CompiledRule, set: AddressSet | null) => ruleChain(one, set).chain.rules.map(ruleText);
const names = (set: AddressSet, one = rule()) => ruleChain(one, set).sets.map(({ name }) => name);

describe('rulechain', () => {
  it('is one rule for any address, with its verdict', () => {
    const words = 'comment "p/r"';
    assert.deepEqual(texts(rule(), null), [`counter drop ${words}`]);
    assert.deepEqual(texts(rule({ action: 'Allow' }), null), [`counter accept ${words}`]);
    assert.deepEqual(texts(rule({ action: 'Reject' }), null), [`counter goto refuse ${words}`]);
  });

  it('names the other end: source of ingress, destination of egress', () => {
    const set = addresses(false, ['10.0.0.0/8']);
    assert.match(texts(rule(), set)[0] ?? '', /^ip saddr 10\.0\.0\.0\/8/);
    assert.match(texts(rule({}, 'egress'), set)[0] ?? '', /^ip daddr 10\.0\.0\.0\/8/);
  });

  it('has both families of what can change, also while empty, so that a change of members is none of rules', () => {
    const [empty, full] = [addresses(true, []), addresses(true, ['10.0.0.0/8'], ['2001:db8::1'])];
    assert.deepEqual(names(empty), ['peers-abc-v4', 'peers-abc-v6']);
    assert.deepEqual(texts(rule(), empty), texts(rule(), full));
    assert.equal(ruleChain(rule(), empty).chain.name, ruleChain(rule(), full).chain.name);
  });

  it('has of what is fixed only the families it has, one prefix without a set', () => {
    assert.deepEqual(names(addresses(false, ['10.0.0.0/8', '192.0.2.1/32'])), ['peers-abc-v4']);
    assert.deepEqual(names(addresses(false, ['10.0.0.0/8', '2001:db8::/32'])), []);
    assert.deepEqual(texts(rule(), addresses(false, [])), []);
  });

  it('asks for no address where every one is meant', () => {
    assert.deepEqual(texts(rule(), addresses(false, ['0.0.0.0/0', '::/0'])), texts(rule(), null));
    assert.deepEqual(texts(rule(), addresses(false, ['::/0'])), [
      'meta nfproto ipv6 counter drop comment "p/r"',
    ]);
  });

  it('leaves out the family that ICMP or IGMP is not of', () => {
    const set = addresses(true, [], ['10.0.0.1', '2001:db8::1']);
    for (const [service, kept] of [
      [{ protocol: 'icmp', type: 8 }, 'peers-abc-v4'],
      [{ protocol: 'icmpv6', type: 128 }, 'peers-abc-v6'],
      [{ protocol: 'igmp', type: 17 }, 'peers-abc-v4'],
    ] as const) {
      const one = rule({ services: [service] });
      assert.equal(ruleChain(one, set).chain.rules.length, 1);
      assert.deepEqual(names(set, one), [kept]);
    }
  });

  it('is named for its content: another rule is another chain', () => {
    const all = [
      rule(),
      rule({ action: 'Allow' }),
      rule({ id: 'other' }),
      rule({ services: [{ protocol: 'tcp' }] }),
    ];
    assert.equal(new Set(all.map((one) => ruleChain(one, null).chain.name)).size, all.length);
    assert.equal(ruleChain(rule(), null).chain.name, ruleChain(rule({ priority: 9 }), null).chain.name);
  });
});
