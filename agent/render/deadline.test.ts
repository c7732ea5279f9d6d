import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { iptablesRenderer } from './iptables/render.ts';
import { chainLines, rulesetText } from './nft-text.ts';
import { render } from './render.ts';

const plain = nodeState(closing('a', 80));
const tried: NodeState = {
  ...plain,
  deadline: {
    milliseconds: 30_000,
    entries: [{ protocol: 'tcp', ports: [7443, 7443], peers: ['192.0.2.1', '2001:db8::1'] }],
    flows: [
      { direction: 'egress', dst: '192.0.2.2', protocol: 'udp', dstPort: 514 },
      { direction: 'egress', dst: '2001:db8::2', protocol: 'icmpv6', icmpType: 128 },
      { direction: 'ingress', src: '192.0.2.3', protocol: 'tcp', dstPort: 22 },
      { direction: 'egress', protocol: 'tcp', dstPort: 1 },
    ],
  },
};
const NO_FAILSAFE: Config = { ...DEFAULT_CONFIG, failsafe: { ingress: [], egress: [] } };

function linesOf(state: NodeState, chain: string, config: Config = DEFAULT_CONFIG): string[] {
  return chainLines(render(state, config).chains.get(chain) ?? assert.fail());
}

const PAST = ' accept comment "failsafe past the deadline of a trial"';
const pastOf = (lines: readonly string[]): string[] =>
  lines.filter((line) => line.endsWith(PAST)).map((line) => line.slice(0, -PAST.length));

describe('the deadline of a trial', () => {
  it('is rendered only while rules are tried, and changes nothing else', () => {
    const without = render(plain, DEFAULT_CONFIG);
    assert.ok(!rulesetText(without).includes('deadline'));
    const ruleset = render(tried, DEFAULT_CONFIG);
    for (const chain of ['input', 'output'])
      assert.deepEqual(
        linesOf(tried, chain).filter((line) => !line.includes('deadline')),
        linesOf(plain, chain),
      );
    const others = [...ruleset.chains.keys()];
    assert.deepEqual(others, [...without.chains.keys()]);
    const text = rulesetText(ruleset);
    assert.match(
      text,
      /set trial-deadline-v4 {\n.*\n\t\tflags timeout\n.*\n\t\telements = { 0\.0\.0\.0 timeout 30s }/,
    );
    assert.match(text, /elements = { :: timeout 30s }/);
  });

  it('stands behind the exemptions and before the policies, with the failsafe list of both directions', () => {
    for (const chain of ['input', 'output']) {
      const lines = linesOf(tried, chain);
      const places = lines.flatMap((line, i) => (line.endsWith(PAST) ? [i] : []));
      assert.equal(places.at(-1), lines.length - 2, 'only the jump to the index follows');
      assert.match(lines[(places[0] ?? 0) - 1] ?? '', /exemption|own-copies/);
      assert.match(lines.at(-1) ?? '', /^jump /);
      for (const port of ['6443', '10250', '2379'])
        assert.ok(
          pastOf(lines).some((line) => line.includes(`tcp dport`) && line.includes(port)),
          port,
        );
    }
  });

  it('has control plane and probes even where the failsafe list is empty, and no more', () => {
    assert.deepEqual(pastOf(linesOf(tried, 'output', NO_FAILSAFE)), [
      'ip saddr & 0.0.0.0 != @trial-deadline-v4 tcp dport 7443 ip daddr 192.0.2.1',
      'ip saddr & 0.0.0.0 != @trial-deadline-v4 ct status dnat meta l4proto tcp ct original proto-dst 7443 ct original ip daddr 192.0.2.1',
      'ip saddr & 0.0.0.0 != @trial-deadline-v4 udp dport 514 ip daddr 192.0.2.2',
      'ip saddr & 0.0.0.0 != @trial-deadline-v4 ct status dnat meta l4proto udp ct original proto-dst 514 ct original ip daddr 192.0.2.2',
      'ip6 saddr & :: != @trial-deadline-v6 tcp dport 7443 ip6 daddr 2001:db8::1',
      'ip6 saddr & :: != @trial-deadline-v6 ct status dnat meta l4proto tcp ct original proto-dst 7443 ct original ip6 daddr 2001:db8::1',
      'ip6 saddr & :: != @trial-deadline-v6 ip6 daddr 2001:db8::2 icmpv6 type 128',
    ]);
    assert.deepEqual(pastOf(linesOf(tried, 'input', NO_FAILSAFE)), [
      'ip saddr & 0.0.0.0 != @trial-deadline-v4 ct state untracked tcp sport 7443 ip saddr 192.0.2.1 tcp flags & (fin | syn | rst | ack) != syn',
      'ip saddr & 0.0.0.0 != @trial-deadline-v4 ct state untracked udp sport 514 ip saddr 192.0.2.2',
      'ip saddr & 0.0.0.0 != @trial-deadline-v4 tcp dport 22 ip saddr 192.0.2.3',
      'ip6 saddr & :: != @trial-deadline-v6 ct state untracked tcp sport 7443 ip6 saddr 2001:db8::1 tcp flags & (fin | syn | rst | ack) != syn',
    ]);
  });

  it('is a set of all addresses for iptables, of each family', () => {
    const { sets, families } = iptablesRenderer(NO_FAILSAFE)(tried);
    for (const family of [4, 6] as const) {
      const { type, timeout, members } = sets.get(`nodewall-trial-deadline-n${family}`) ?? assert.fail();
      assert.deepEqual([type, timeout, members.prefixes.map(({ length }) => length)], ['hash:net', 30, [0]]);
      const rules = families[family][0]?.chains.get('NODEWALL-OUTPUT')?.rules.map(({ text }) => text) ?? [];
      const match = `-m set ! --match-set nodewall-trial-deadline-n${family} src`;
      assert.ok(
        rules.some((text) => text.includes(match) && text.includes('7443') && text.endsWith('ACCEPT')),
      );
    }
  });
});
