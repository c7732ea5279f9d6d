import assert from 'node:assert/strict';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { addressSet, compiledRule, stateOf } from '../../test/fake/node-state.ts';
import { nftOwners } from '../record/accounting.ts';
import { iptablesRenderer } from './iptables/render.ts';
import { chainLines } from './nft-text.ts';
import { renderer } from './render.ts';

const nodes = addressSet('nodes', { members: toMemberSet([], ['192.0.2.1', '2001:db8::1']) });
const logged = compiledRule('logged', { log: { label: '' } });
const state = stateOf([logged], { addressSets: new Map([[nodes.id, nodes]]) });

function lines(chain: string, changes: Partial<Config> = {}, canLog = true): string[] | undefined {
  const found = renderer({ ...DEFAULT_CONFIG, ...changes }, canLog)(state).chains.get(chain);
  return found && chainLines(found);
}

function iptablesLines(chain: string, family: 4 | 6): string[] | undefined {
  const [filter] = iptablesRenderer(DEFAULT_CONFIG)(state).families[family];
  return filter?.chains.get(chain)?.rules.map(({ text }) => text);
}

/** With the node's own address as source, what pods send by the wire goes on behind this. */
const OWN_COPIES = 'meta pkttype != host fib saddr type local jump own-copies';

describe('anti-spoofing', () => {
  it('comes before the exemptions, of pods before established connections too', () => {
    assert.deepEqual(lines('input')?.slice(1, 5), [
      'iifgroup 8 jump anti-spoofing-pods',
      'ct state established,related accept',
      'fib saddr type local jump anti-spoofing-own',
      'iif "lo" accept comment "exemption loopback"',
    ]);
  });

  it('compares sources from pods with all Nodes, others with own addresses', () => {
    assert.deepEqual(lines('anti-spoofing-own'), [
      'iif "lo" return',
      'meta iifkind "vrf" return',
      'meta nfproto ipv4 fib daddr type local goto spoofed',
      'ip6 saddr != fe80::/10 fib daddr type local goto spoofed',
    ]);
    assert.deepEqual(lines('anti-spoofing-pods'), [
      'iif "lo" return',
      OWN_COPIES,
      'ip saddr @peers-nodes-v4 goto spoofed',
      'ip6 saddr @peers-nodes-v6 goto spoofed',
      'meta nfproto ipv4 fib saddr type local goto spoofed',
      'ip6 saddr != fe80::/10 fib saddr type local goto spoofed',
    ]);
  });

  it('also compares forwarded packets of pods', () => {
    assert.deepEqual(lines('forward', { interfaceGroups: { pods: 20, clusternet: 9 } }), [
      'type filter hook forward priority 0; policy accept;',
      'iifgroup 20 jump anti-spoofing-pods',
    ]);
    for (const family of [4, 6] as const) {
      assert.deepEqual(iptablesLines('NODEWALL-FORWARD', family), [
        '-m devgroup --src-group 0x8/0x7fffffff -j NODEWALL-anti-spoofing-pods',
      ]);
    }
  });

  it('counts every spoofed packet, and records it within the limit if a rule has logging and the kernel can', () => {
    assert.deepEqual(lines('spoofed'), ['counter goto spoofed-record']);
    assert.deepEqual(lines('spoofed-record'), [
      'limit rate 100/second burst 200 packets counter log prefix "nodewall spoofed" group 7411 snaplen 128 queue-threshold 64',
      'drop',
    ]);
    assert.deepEqual(lines('spoofed', {}, false), ['counter drop']);
    const silent = renderer(DEFAULT_CONFIG)({ ...state, rules: [compiledRule('silent')] });
    assert.deepEqual(
      [...silent.chains.keys()].filter((name) => name.startsWith('spoofed')),
      ['spoofed'],
    );
    const owners = nftOwners(renderer(DEFAULT_CONFIG)(state));
    assert.deepEqual(
      ['spoofed', 'spoofed-record'].map((name) => owners.get(name)),
      ['logged', 'record'].map((kind) => ({ rule: 'spoofed', kind })),
    );
  });

  it('is the same in iptables', () => {
    for (const family of [4, 6] as const) {
      const input = iptablesLines('NODEWALL-INPUT', family)?.filter((line) => line.includes('spoofing'));
      assert.deepEqual(input, [
        '-m devgroup --src-group 0x8/0x7fffffff -j NODEWALL-anti-spoofing-pods',
        '-m addrtype --src-type LOCAL -j NODEWALL-anti-spoofing-own',
      ]);
    }
    assert.deepEqual(iptablesLines('NODEWALL-anti-spoofing-own', 6), [
      '-i lo -j RETURN',
      '! -s fe80::/10 -m addrtype --dst-type LOCAL -g NODEWALL-spoofed',
    ]);
    assert.deepEqual(iptablesLines('NODEWALL-anti-spoofing-pods', 4), [
      '-i lo -j RETURN',
      '-m pkttype ! --pkt-type unicast -m addrtype --src-type LOCAL -j NODEWALL-own-copies',
      '-m set --match-set nodewall-peers-nodes-h4 src -g NODEWALL-spoofed',
      '-m addrtype --src-type LOCAL -g NODEWALL-spoofed',
    ]);
  });

  it('is not there on a node without rules, or if it is turned off', () => {
    const names = (config: Config, rules = state.rules) =>
      [...renderer(config)({ ...state, rules }).chains.keys()].filter((name) => /spoof|forward/.test(name));
    assert.equal(names(DEFAULT_CONFIG).length, 5);
    assert.deepEqual(names(DEFAULT_CONFIG, []), []);
    assert.deepEqual(names({ ...DEFAULT_CONFIG, antiSpoofing: false }), []);
  });
});
