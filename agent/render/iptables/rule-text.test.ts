import assert from 'node:assert/strict';
import { type Cidr, parseCidr } from '../../../lib/net/address.ts';
import type { Match } from '../ruleset.ts';
import { iptablesQuote, ruleTexts, targetText } from './rule-text.ts';

const setNames = new Map([['peers-a-v4', 'nodewall-peers-a-h4']]);

function texts(matches: readonly Match[], family: 4 | 6 = 4): string[] {
  return ruleTexts(matches, { target: '-j DROP', comment: null }, { family, setNames });
}

function cidr(text: string): Cidr {
  return parseCidr(text)?.cidr ?? assert.fail(text);
}

const from = (text: string): Match => ({
  match: 'address',
  family: cidr(text).family,
  field: 'saddr',
  in: { cidr: cidr(text) },
});
const inSet: Match = { match: 'address', family: 4, field: 'saddr', in: { set: 'peers-a-v4' } };
const port = (field: 'sport' | 'dport', ...ranges: (readonly [number, number])[]): Match => ({
  match: 'port',
  protocol: 'tcp',
  field,
  ranges,
});

/**
 * test/kernel/iptables-text.test.ts compares all of these, and others, with the output of
 * iptables-save.
 */
describe('the text of a rule', () => {
  it('has the options of the rule first, then matches in their order', () => {
    assert.deepEqual(texts([port('dport', [80, 80]), inSet, { match: 'loopback', field: 'iif' }]), [
      '-i lo -p tcp -m tcp --dport 80 -m set --match-set nodewall-peers-a-h4 src -j DROP',
    ]);
    assert.deepEqual(texts([port('sport', [1, 2]), from('10.0.0.0/8'), port('dport', [80, 80])]), [
      '-s 10.0.0.0/8 -p tcp -m tcp --sport 1:2 --dport 80 -j DROP',
    ]);
  });

  it('is empty in the other family', () => {
    assert.deepEqual(texts([inSet], 6), []);
    assert.deepEqual(texts([from('2001:db8::/32')], 4), []);
    assert.deepEqual(texts([{ match: 'icmp', protocol: 'icmpv6', types: [{ type: 128, code: null }] }]), []);
    assert.deepEqual(texts([{ match: 'igmp', types: [17] }], 6), []);
  });

  it('is empty if nothing can match', () => {
    assert.deepEqual(texts([port('dport', [80, 80]), { match: 'l4proto', protocols: ['udp'] }]), []);
    assert.deepEqual(texts([from('10.0.0.0/8'), from('192.0.2.0/24')]), []);
  });

  it('refuses what egress gateways need', () => {
    assert.throws(
      () => texts([{ match: 'ctNew' }]),
      /the match ctNew is for egress gateways, which need nftables/,
    );
    const statement = { kind: 'snat', family: 4, to: 'saddr' } as const;
    assert.throws(() => targetText(statement, 4), /the statement snat is for egress gateways/);
    assert.throws(() => targetText({ kind: 'masquerade', random: false }, 4), /statement masquerade is/);
  });

  it('has the narrower of two nested addresses', () => {
    for (const both of [
      [from('10.0.0.0/8'), from('10.1.0.0/16')],
      [from('10.1.0.0/16'), from('10.0.0.0/8')],
    ]) {
      assert.deepEqual(texts(both), ['-s 10.1.0.0/16 -j DROP']);
    }
  });

  it('is split if the ports exceed a multiport match', () => {
    const ranges = Array.from({ length: 9 }, (_, i) => [10 * i + 1, 10 * i + 2] as const);
    assert.deepEqual(texts([port('dport', ...ranges)]), [
      '-p tcp -m multiport --dports 1:2,11:12,21:22,31:32,41:42,51:52,61:62 -j DROP',
      '-p tcp -m multiport --dports 71:72,81:82 -j DROP',
    ]);
  });

  it('is split for several groups, and one rule for excluded groups', () => {
    const groups = (negated: boolean) =>
      texts([{ match: 'interfaceGroup', field: 'iifgroup', groups: [8, 9], negated }]);
    assert.deepEqual(groups(false), [
      '-m devgroup --src-group 0x8/0x7fffffff -j DROP',
      '-m devgroup --src-group 0x9/0x7fffffff -j DROP',
    ]);
    assert.deepEqual(groups(true), [
      '-m devgroup ! --src-group 0x8/0x7fffffff -m devgroup ! --src-group 0x9/0x7fffffff -j DROP',
    ]);
  });

  it('compares bytes for ICMP type 255, which iptables reads as any, and for IGMP', () => {
    const icmp = (code: number | null) =>
      texts([{ match: 'icmp', protocol: 'icmp', types: [{ type: 255, code }] }]);
    assert.deepEqual(icmp(null), ['-p icmp -m u32 --u32 "0x0>>0x16&0x3c@0x0>>0x18=0xff" -j DROP']);
    assert.deepEqual(icmp(3), ['-p icmp -m u32 --u32 "0x0>>0x16&0x3c@0x0>>0x10=0xff03" -j DROP']);
    assert.deepEqual(texts([{ match: 'igmp', types: [0x11, 0x16] }]), [
      '-p igmp -m u32 --u32 "0x0>>0x16&0x3c@0x0>>0x18=0x11,0x16" -j DROP',
    ]);
  });

  it('names protocols as iptables prints them, and never protocol 0, which it reads as any', () => {
    const l4 = (protocols: readonly number[], family: 4 | 6) =>
      texts([{ match: 'l4proto', protocols }], family);
    assert.deepEqual(l4([0, 4, 51, 112, 253], 4), [
      '-m u32 --u32 "0x6&0xff=0x0" -j DROP',
      ...['ipencap', 'ah', 'vrrp', '253'].map((name) => `-p ${name} -j DROP`),
    ]);
    // Extension headers of IPv6 are no protocol, but for AH.
    assert.deepEqual(l4([0, 43, 44, 51, 60, 112], 6), ['-m ah -j DROP', '-p vrrp -j DROP']);
  });

  it('has a rate within the limits of iptables', () => {
    const limit = (perSecond: number, burst: number) => texts([{ match: 'limit', perSecond, burst }]);
    assert.deepEqual(limit(300, 20), ['-m limit --limit 303/sec --limit-burst 20 -j DROP']);
    assert.deepEqual(
      limit(100, 5),
      ['-m limit --limit 100/sec -j DROP'],
      'the default, which is not printed',
    );
    assert.deepEqual(limit(100_000, 1_000_000), ['-m limit --limit 10000/sec --limit-burst 10000 -j DROP']);
  });

  it('quotes text of several words', () => {
    assert.equal(iptablesQuote('one-word_1'), 'one-word_1');
    assert.equal(iptablesQuote('policy/rule'), '"policy/rule"');
    assert.equal(iptablesQuote('a "b" \\ \'c\''), `"a \\"b\\" \\\\ \\'c\\'"`);
    assert.equal(iptablesQuote('two\nlines'), '"two_lines"');
    assert.equal(iptablesQuote(''), '""');
  });
});
