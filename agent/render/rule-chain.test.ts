import assert from 'node:assert/strict';
import type { AddressSet, CompiledRule, ServiceSet } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ResolvedPeer } from '../../apis/resolved-peers.ts';
import { parseCidr } from '../../lib/net/address.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { addressSet, compiledRule } from '../../test/fake/node-state.ts';
import { ruleText, setLines } from './nft-text.ts';
import { type RuleParts, ruleChain } from './rule-chain.ts';
import { SetMatches } from './rule-matches.ts';

const block = (text: string) => ({ cidr: parseCidr(text)?.cidr ?? assert.fail(text), except: [] });

function addresses(dynamic: boolean, blocks: string[], singles: string[] = []): AddressSet {
  return addressSet('abc', { dynamic, members: toMemberSet(blocks.map(block), singles) });
}

function rule(
  changes: Partial<CompiledRule> = {},
  direction: 'ingress' | 'egress' = 'ingress',
): CompiledRule {
  return compiledRule('r', { ...changes, source: { direction } });
}

const matches = new SetMatches();
const peersOf = (set: AddressSet | null): ResolvedPeer[] =>
  set === null ? [{ kind: 'any' }] : [{ kind: 'addresses', set }];
const rendered = (one: CompiledRule, set: AddressSet | null, parts: Partial<RuleParts> = {}) =>
  ruleChain(one, { peers: peersOf(set), families: [4, 6], config: DEFAULT_CONFIG, matches, ...parts });
const texts = (one: CompiledRule, set: AddressSet | null, parts: Partial<RuleParts> = {}) =>
  rendered(one, set, parts).chain.rules.map(ruleText);
const names = (set: AddressSet, one = rule()) => rendered(one, set).sets.map(({ name }) => name);

describe('rulechain', () => {
  it('has no set of a family that the cluster does not use, while it is empty', () => {
    const set = (...addresses: string[]) =>
      addressSet('abc', { dynamic: true, members: toMemberSet([], addresses) });
    const sets = (one: AddressSet) => rendered(rule(), one, { families: [4] }).sets.map(({ name }) => name);
    assert.deepEqual(sets(set()), ['peers-abc-v4']);
    assert.deepEqual(sets(set('fd00::1')), ['peers-abc-v4', 'peers-abc-v6']);
    assert.deepEqual(sets({ ...set(), names: ['example.org'] }), ['peers-abc-v4', 'peers-abc-v6']);
  });

  it('is one rule with its verdict for any address', () => {
    const words = 'comment "p/r"';
    assert.deepEqual(texts(rule(), null), [`counter drop ${words}`]);
    assert.deepEqual(texts(rule({ action: 'Allow' }), null), [`counter accept ${words}`]);
    assert.deepEqual(texts(rule({ action: 'Reject' }), null), [`counter goto refuse ${words}`]);
  });

  it('matches the other end: source for ingress, destination for egress', () => {
    const set = addresses(false, ['10.0.0.0/8']);
    assert.match(texts(rule(), set)[0] ?? '', /^ip saddr 10\.0\.0\.0\/8/);
    assert.match(texts(rule({}, 'egress'), set)[0] ?? '', /^ip daddr 10\.0\.0\.0\/8/);
  });

  it('has both families of dynamic peers, also while empty, so that new members change no rule', () => {
    const [empty, full] = [addresses(true, []), addresses(true, ['10.0.0.0/8'], ['2001:db8::1'])];
    assert.deepEqual(names(empty), ['peers-abc-v4', 'peers-abc-v6']);
    assert.deepEqual(texts(rule(), empty), texts(rule(), full));
    assert.equal(rendered(rule(), empty).chain.name, rendered(rule(), full).chain.name);
  });

  it('has only the existing families of fixed peers, and no set for one prefix', () => {
    assert.deepEqual(names(addresses(false, ['10.0.0.0/8', '192.0.2.1/32'])), ['peers-abc-v4']);
    assert.deepEqual(names(addresses(false, ['10.0.0.0/8', '2001:db8::/32'])), []);
    assert.deepEqual(texts(rule(), addresses(false, [])), []);
  });

  it('matches no address if any address is meant', () => {
    assert.deepEqual(texts(rule(), addresses(false, ['0.0.0.0/0', '::/0'])), texts(rule(), null));
    assert.deepEqual(texts(rule(), addresses(false, ['::/0'])), [
      'meta nfproto ipv6 counter drop comment "p/r"',
    ]);
  });

  it('leaves out the other family for ICMP and IGMP', () => {
    const set = addresses(true, [], ['10.0.0.1', '2001:db8::1']);
    for (const [service, kept] of [
      [{ protocol: 'icmp', type: 8 }, 'peers-abc-v4'],
      [{ protocol: 'icmpv6', type: 128 }, 'peers-abc-v6'],
      [{ protocol: 'igmp', type: 17 }, 'peers-abc-v4'],
    ] as const) {
      const one = rule({ services: [service] });
      assert.equal(rendered(one, set).chain.rules.length, 1);
      assert.deepEqual(names(set, one), [kept]);
    }
  });

  it('is named for its content: a changed rule has a new name', () => {
    const all = [
      rule(),
      rule({ action: 'Allow' }),
      rule({ id: 'other' }),
      rule({ services: [{ protocol: 'tcp' }] }),
    ];
    assert.equal(new Set(all.map((one) => rendered(one, null).chain.name)).size, all.length);
    assert.equal(rendered(rule(), null).chain.name, rendered(rule({ priority: 9 }), null).chain.name);
  });

  it('matches interface groups in one more rule beside addresses', () => {
    const behind = (...groups: number[]): ResolvedPeer => ({ kind: 'interfaces', groups });
    const one = behind(12, 8);
    assert.deepEqual(texts(rule(), null, { peers: [one] }), [
      'iifgroup { 8, 12 } counter drop comment "p/r"',
    ]);
    const block = peersOf(addresses(false, ['10.0.0.0/8']));
    assert.deepEqual(texts(rule(), null, { peers: [one, ...block] }), [
      'iifgroup { 8, 12 } counter drop comment "p/r"',
      'ip saddr 10.0.0.0/8 counter drop comment "p/r"',
    ]);
    assert.deepEqual(texts(rule({}, 'egress'), null, { peers: [behind(9)] }), [
      'oifgroup 9 counter drop comment "p/r"',
    ]);
  });

  it('looks up Services by address, protocol and port, in a set per family', () => {
    const members = [
      { address: '10.96.0.1', protocol: 'tcp', port: 443 },
      { address: '10.0.0.9', protocol: 'udp', port: 53 },
      { address: '2001:db8::1', protocol: 'sctp', port: 258 },
    ] as const;
    const set: ServiceSet = { id: 'abc', description: 'default/api', members };
    const { chain, sets } = rendered(rule({}, 'egress'), null, { peers: [{ kind: 'services', set }] });
    assert.deepEqual(chain.rules.map(ruleText), [
      'ip daddr . meta l4proto . th dport @services-abc-v4 counter drop comment "p/r"',
      'ip6 daddr . meta l4proto . th dport @services-abc-v6 counter drop comment "p/r"',
    ]);
    assert.deepEqual(
      sets.flatMap((set) => setLines(set, true)),
      [
        'type ipv4_addr . inet_proto . inet_service',
        'comment "services default/api"',
        'elements = { 10.0.0.9 . udp . 53, 10.96.0.1 . tcp . 443 }',
        'type ipv6_addr . inet_proto . inet_service',
        'comment "services default/api"',
        'elements = { 2001:db8::1 . sctp . 258 }',
      ],
    );
  });

  it('continues with the baseline tier for Pass, and with the next rule for Audit', () => {
    assert.deepEqual(texts(rule({ action: 'Pass' }), null), ['counter goto ingress-pass comment "p/r"']);
    for (const action of ['Allow', 'Drop', 'Reject', 'Pass'] as const) {
      assert.deepEqual(texts(rule({ action, mode: 'Audit' }), null), ['counter return comment "p/r"']);
    }
  });

  it('matches the port before NAT for NodePort traffic', () => {
    const web = { protocol: 'tcp', ports: [30080, 30090] } as const;
    const from = { protocol: 'tcp', ports: [80, 80], sourcePorts: [1, 9] } as const;
    const one = rule({
      traffic: 'NodePort',
      services: [web, from, { protocol: 'udp' }, { protocol: 'icmp' }],
    });
    const { chain } = rendered(one, null);
    assert.match(chain.name, /^nodeport-/);
    assert.deepEqual(chain.rules.map(ruleText), [
      'meta l4proto tcp ct original proto-dst 30080-30090 counter drop comment "p/r"',
      'tcp sport 1-9 meta l4proto tcp ct original proto-dst 80 counter drop comment "p/r"',
      'meta l4proto { icmp, udp } counter drop comment "p/r"',
    ]);
  });

  describe('writes records', () => {
    const log = { label: '' };
    const record = (changes: Partial<CompiledRule>, rate = 100) => {
      const config = { ...DEFAULT_CONFIG, log: { ...DEFAULT_CONFIG.log, rate, burst: 5 } };
      const { chain, record: found } = rendered(rule({ log, ...changes }), null, { config });
      assert.deepEqual(chain.rules.map(ruleText), [`counter goto ${found?.name} comment "p/r"`]);
      return (found?.rules ?? []).map(ruleText);
    };
    const logged = (words: string) =>
      `limit rate 100/second burst 5 packets counter log prefix "nodewall r ${words}" group 7411 snaplen 128 queue-threshold 64`;

    it('in a chain of its own, then applies the verdict', () => {
      assert.deepEqual(record({ action: 'Drop' }), [logged('Drop'), 'drop']);
      assert.deepEqual(record({ action: 'Reject' }), [
        logged('Reject'),
        'meta l4proto tcp reject with tcp reset',
        'reject with icmpx admin-prohibited',
      ]);
    });

    it('of allowed connections only for the first packet', () => {
      assert.deepEqual(record({ action: 'Allow' }), [
        'ct status confirmed counter accept',
        logged('Allow'),
        'accept',
      ]);
      assert.deepEqual(record({ action: 'Drop', mode: 'Audit' }), [
        'ct status confirmed counter return',
        logged('Drop audit'),
        'return',
      ]);
    });

    it('without a limit if the rate is 0', () => {
      assert.equal(record({ action: 'Drop' }, 0)[0], logged('Drop').replace(/^limit .* packets /, ''));
    });
  });
});
