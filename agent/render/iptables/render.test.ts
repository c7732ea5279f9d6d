import assert from 'node:assert/strict';
import type { CompiledRule, NodeState } from '../../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../../apis/config.ts';
import { parseCidr } from '../../../lib/net/address.ts';
import { toMemberSet } from '../../../lib/net/member-set.ts';
import { addressSet, fromSet, compiledRule as rule, stateOf } from '../../../test/fake/node-state.ts';
import type { NamedSet } from '../ruleset.ts';
import { iptablesRenderer, toIpSet } from './render.ts';
import { type IptablesRule, type IptablesRuleset, restoreText } from './tables.ts';

const nodes = addressSet('nodes', { members: toMemberSet([], ['192.0.2.1', '2001:db8::1']) });
const four = addressSet('four', { dynamic: false, members: toMemberSet([], ['192.0.2.7', '192.0.2.9']) });
const six = addressSet('six', { dynamic: false, members: toMemberSet([], ['2001:db8::7', '2001:db8::9']) });
const CONFIG: Config = {
  ...DEFAULT_CONFIG,
  antiSpoofing: false,
  failsafe: { ingress: [], egress: [] },
};

function state(...rules: CompiledRule[]): NodeState {
  return stateOf(rules, { addressSets: new Map([nodes, four, six].map((set) => [set.id, set])) });
}

/** The rules of one chain, without hashes. */
function lines(
  { families }: IptablesRuleset,
  name: string,
  { family = 4, table = 'filter' }: { family?: 4 | 6; table?: string } = {},
): string[] | undefined {
  const chains = families[family].find((one) => one.name === table)?.chains.values() ?? [];
  const short = (text: string) => text.replaceAll(/-[0-9a-f]{10}(?=\s|$)/g, '');
  return [...chains].find((chain) => short(chain.name) === name)?.rules.map(({ text }) => short(text));
}

/** The rules of the first IPv4 chain whose name matches. */
function rulesOf({ families }: IptablesRuleset, name: RegExp): readonly IptablesRule[] | undefined {
  const chains = families[4][0]?.chains.values() ?? [];
  return [...chains].find((chain) => name.test(chain.name))?.rules;
}

function render(config: Config, ...rules: CompiledRule[]): IptablesRuleset {
  return iptablesRenderer(config)(state(...rules));
}

const web = { services: [{ protocol: 'tcp', ports: [80, 80] }] } as const;
const LOG = { label: '' };

describe('iptables: the rules of a state', () => {
  it('are the jumps and exemptions for no rules', () => {
    const ruleset = render(CONFIG);
    assert.equal(ruleset.sets.size, 0);
    assert.equal(
      restoreText(ruleset.families[4]),
      [
        '*filter',
        ':NODEWALL-INPUT - [0:0]',
        ':NODEWALL-own-copies - [0:0]',
        ':NODEWALL-OUTPUT - [0:0]',
        ':NODEWALL-FORWARD - [0:0]',
        '-I INPUT 1 -j NODEWALL-INPUT',
        '-I OUTPUT 1 -j NODEWALL-OUTPUT',
        '-I FORWARD 1 -j NODEWALL-FORWARD',
        '-A NODEWALL-INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        '-A NODEWALL-INPUT -i lo -m comment --comment "exemption loopback" -j ACCEPT',
        '-A NODEWALL-INPUT -m pkttype ! --pkt-type unicast -m addrtype --src-type LOCAL -j NODEWALL-own-copies',
        '-A NODEWALL-own-copies -m mac --mac-source 00:00:00:00:00:00 -j RETURN',
        '-A NODEWALL-own-copies -m mac ! --mac-source 00:00:00:00:00:00 -j RETURN',
        '-A NODEWALL-own-copies -m comment --comment "exemption loopback" -j ACCEPT',
        '-A NODEWALL-OUTPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        '-A NODEWALL-OUTPUT -o lo -m comment --comment "exemption loopback" -j ACCEPT',
        '-A NODEWALL-OUTPUT -m devgroup --dst-group 0x8/0x7fffffff -m comment --comment "exemption localPods" -j ACCEPT',
        'COMMIT',
        '',
      ].join('\n'),
    );
  });

  it('include the destinations routed to local pods, if the agent knows them', () => {
    const members = toMemberSet(
      [{ cidr: { family: 4, value: 0x0af4_0100n, length: 24 }, except: [] }],
      ['fd00::2'],
    );
    const localPods = addressSet('local-pods', { members });
    const ruleset = iptablesRenderer(CONFIG)({ ...state(), localPods });
    const found = ([4, 6] as const).map((family) => lines(ruleset, 'NODEWALL-OUTPUT', { family })?.at(-1));
    assert.deepEqual(
      found,
      ['n4', 'h6'].map(
        (type) =>
          `-m conntrack --ctstate DNAT -m set --match-set nodewall-peers-local-pods-${type} dst -m comment --comment "exemption localPods" -j ACCEPT`,
      ),
    );
  });

  it('are one for each policy rule and family, and none in other families', () => {
    const ruleset = render(CONFIG, rule('web', { ...web, peers: fromSet('four') }));
    const set = 'nodewall-peers-four-h4';
    assert.deepEqual([...ruleset.sets.keys()], [set]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-INPUT')?.at(-1), '-j NODEWALL-ingress');
    assert.deepEqual(lines(ruleset, 'NODEWALL-ingress'), [
      '-p tcp -g NODEWALL-ingress-tcp',
      '-d 255.255.255.255/32 -p udp -m udp --sport 67 --dport 68 -m comment --comment "exemption dhcpClient" -j ACCEPT',
    ]);
    assert.deepEqual(
      ruleset.families[4][0]?.chains.get('NODEWALL-ingress-tcp')?.rules.map(({ text }) => text.slice(0, 19)),
      ['-j NODEWALL-ingress'],
    );
    const rules = rulesOf(ruleset, /^NODEWALL-ingress-[0-9a-f]{10}$/);
    assert.deepEqual(
      rules?.map(({ text, counts, source }) => [text, counts, source?.rule]),
      [
        [
          `-p tcp -m tcp --dport 80 -m set --match-set ${set} src -m comment --comment "p/web" -j DROP`,
          { ruleId: 'web', kind: 'matched' },
          'web',
        ],
      ],
    );
    assert.ok(!ruleset.families[6][0]?.chains.has('NODEWALL-ingress-tcp'));
  });

  it('return from a list that is empty in the family', () => {
    // Failsafe traffic of IPv4 has no rules, but must not reach the list after it.
    const config = { ...CONFIG, failsafe: { ...DEFAULT_CONFIG.failsafe, egress: [] } };
    const ruleset = render(config, rule('named', { ...web, peers: fromSet('six') }), rule('all'));
    const [first] = lines(ruleset, 'NODEWALL-in-tcp-to-fs') ?? [];
    assert.match(first ?? '', /^-p tcp -m multiport --dports 2379,2380,6443,10250 .* -j RETURN$/);
  });

  it('reject by two rules, and record before they decide', () => {
    const ruleset = render(
      CONFIG,
      rule('no', { action: 'Reject' }),
      rule('yes', { action: 'Allow', log: LOG }),
    );
    const refuse = [
      '-p tcp -j REJECT --reject-with tcp-reset',
      '-j REJECT --reject-with icmp-admin-prohibited',
    ];
    assert.deepEqual(lines(ruleset, 'NODEWALL-refuse'), refuse);
    assert.equal(
      lines(ruleset, 'NODEWALL-refuse', { family: 6 })?.at(-1),
      '-j REJECT --reject-with icmp6-adm-prohibited',
    );
    const allow = render(CONFIG, rule('yes', { action: 'Allow', log: LOG }));
    assert.deepEqual(lines(allow, 'NODEWALL-record'), [
      '-m conntrack --ctstatus CONFIRMED -j ACCEPT',
      '-m limit --limit 100/sec --limit-burst 200 -j NFLOG --nflog-prefix "nodewall yes Allow" --nflog-group 7411 --nflog-size 128 --nflog-threshold 64',
      '-j ACCEPT',
    ]);
    const record = rulesOf(allow, /^NODEWALL-record-/);
    assert.deepEqual(
      record?.map(({ counts, source }) => [counts?.kind, source?.rule]),
      [
        ['record', 'yes'],
        ['record', 'yes'],
        [undefined, 'yes'],
      ],
    );
  });
});

const NODEPORT = { ...web, traffic: 'NodePort' } as const;
const HTTP = '-p tcp -m conntrack --ctorigdstport 80';

describe('iptables: NodePort rules', () => {
  it('are in one list, which allowed packets leave; nothing is accepted in FORWARD', () => {
    const ruleset = render(
      CONFIG,
      rule('allow', { ...NODEPORT, action: 'Allow', peers: fromSet('four') }),
      rule('drop', NODEPORT),
    );
    const jump = '-m conntrack --ctstate DNAT -j NODEWALL-NODEPORT';
    assert.deepEqual(lines(ruleset, 'NODEWALL-INPUT')?.slice(0, 3), [
      '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      '-d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -m comment --comment "loopback addresses on the network" -j DROP',
      jump,
    ]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-FORWARD'), [
      '-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN',
      jump,
    ]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-NODEPORT'), [
      '-i lo -m comment --comment "from the node itself" -j RETURN',
      '-m devgroup --src-group 0x8/0x7fffffff -m comment --comment "from local pods" -j RETURN',
      `${HTTP} -m set --match-set nodewall-peers-four-h4 src -m comment --comment "p/allow" -j RETURN`,
      `${HTTP} -m comment --comment "p/drop" -j DROP`,
    ]);
    assert.ok(!(lines(ruleset, 'NODEWALL-NODEPORT') ?? []).some((line) => line.endsWith('ACCEPT')));
  });

  it('of the baseline tier come last, also after a Pass; record chains end with the verdict', () => {
    const ruleset = render(
      CONFIG,
      rule('pass', { ...NODEPORT, action: 'Pass', peers: fromSet('four') }),
      rule('allow', { ...NODEPORT, action: 'Allow', log: LOG }),
      rule('base', { ...NODEPORT, tierPriority: 253 }),
    );
    assert.deepEqual(lines(ruleset, 'NODEWALL-NODEPORT')?.slice(-3), [
      `${HTTP} -m set --match-set nodewall-peers-four-h4 src -m comment --comment "p/pass" -g NODEWALL-nodeport-pass`,
      `${HTTP} -m comment --comment "p/allow" -g NODEWALL-record`,
      '-j NODEWALL-nodeport-baseline',
    ]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-nodeport-pass'), ['-j NODEWALL-nodeport-baseline']);
    assert.deepEqual(lines(ruleset, 'NODEWALL-nodeport-baseline'), [
      `${HTTP} -m comment --comment "p/base" -j DROP`,
    ]);
    const record = lines(ruleset, 'NODEWALL-record') ?? [];
    assert.equal(record[0], '-m conntrack --ctstatus CONFIRMED -j RETURN');
    assert.equal(record.length, 2);
  });

  it('of an Audit rule are a chain, after which the list continues', () => {
    const ruleset = render(
      CONFIG,
      rule('audit', { ...NODEPORT, mode: 'Audit', log: LOG }),
      rule('drop', NODEPORT),
    );
    assert.deepEqual(lines(ruleset, 'NODEWALL-NODEPORT')?.slice(-2), [
      '-j NODEWALL-nodeport',
      `${HTTP} -m comment --comment "p/drop" -j DROP`,
    ]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-nodeport'), [
      `${HTTP} -m comment --comment "p/audit" -g NODEWALL-record`,
    ]);
  });
});

describe('iptables: masquerade', () => {
  it('marks in FORWARD what POSTROUTING masquerades, except for one prefix or several', () => {
    const except = ['10.0.0.0/8', '192.0.2.0/24', '2001:db8::/32'];
    const ruleset = render({ ...CONFIG, masquerade: { enabled: true, except } });
    const outside =
      '-m devgroup --src-group 0x8/0x7fffffff -m devgroup ! --dst-group 0x8/0x7fffffff -m devgroup ! --dst-group 0x9/0x7fffffff -m comment --comment "pods leave the node"';
    const mark = '-j MARK --set-xmark 0x1000/0x1000';
    assert.deepEqual(lines(ruleset, 'NODEWALL-FORWARD'), [
      '-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN',
      '-m conntrack ! --ctstatus CONFIRMED -j NODEWALL-MASQUERADE',
    ]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-MASQUERADE'), [`${outside} -j NODEWALL-masq`]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-masq'), [
      '-d 10.0.0.0/8 -j RETURN',
      '-d 192.0.2.0/24 -j RETURN',
      mark,
    ]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-MASQUERADE', { family: 6 }), [
      `! -d 2001:db8::/32 ${outside} ${mark}`,
    ]);
    assert.deepEqual(lines(ruleset, 'NODEWALL-POSTROUTING', { table: 'nat' }), [
      '-m mark ! --mark 0x1000/0x1000 -j RETURN',
      '-j MARK --set-xmark 0x0/0x1000',
      '-m comment --comment "pods leave the node" -j MASQUERADE --random-fully',
    ]);
  });
});

describe('iptables: successive states', () => {
  const first = rule('first', { ...web, peers: fromSet('four') });
  const second = rule('second', { services: [{ protocol: 'udp', ports: [53, 53] }] });

  it('reuses equal chains and sets', () => {
    const renders = iptablesRenderer(CONFIG);
    const before = renders(state(first, second));
    assert.equal(
      renders(state(first, second)).sets.get('nodewall-peers-four-h4'),
      before.sets.get('nodewall-peers-four-h4'),
    );
    const after = renders(state(first, rule('third')));
    const chains = (ruleset: IptablesRuleset) => ruleset.families[4][0]?.chains ?? new Map();
    const same = [...chains(after)].filter(([name, chain]) => chains(before).get(name) === chain);
    assert.deepEqual(
      same.map(([name]) => name.replace(/-[0-9a-f]{10}$/, '')),
      ['NODEWALL-INPUT', 'NODEWALL-own-copies', 'NODEWALL-ingress', 'NODEWALL-OUTPUT', 'NODEWALL-FORWARD'],
    );
    assert.deepEqual(
      after,
      iptablesRenderer(CONFIG)(state(first, rule('third'))),
      'the same as made at once',
    );
  });

  it('keeps the chains when only members change', () => {
    const renders = iptablesRenderer(CONFIG);
    const peers = addressSet('peers', { members: toMemberSet([], ['192.0.2.7']) });
    const more = { ...peers, members: toMemberSet([], ['192.0.2.7', '192.0.2.8']) };
    const one = rule('one', { peers: fromSet('peers') });
    const [before, after] = [peers, more].map((set) =>
      renders(
        stateOf([one, first], {
          addressSets: new Map([nodes, four, set].map((own) => [own.id, own])),
        }),
      ),
    );
    assert.equal(after?.families, before?.families);
    assert.equal(after?.sets.get('nodewall-peers-four-h4'), before?.sets.get('nodewall-peers-four-h4'));
    assert.equal(after?.sets.get('nodewall-peers-peers-h4')?.members, more.members.v4);
  });

  it('names a set by its type, and the rules with it', () => {
    const renders = iptablesRenderer(CONFIG);
    const before = renders(state(first));
    const block = toMemberSet(
      [{ cidr: { family: 4, value: 0xa000000n, length: 8 }, except: [] }],
      ['192.0.2.7'],
    );
    const wider = { ...four, members: block };
    const next = { ...state(first), addressSets: new Map([nodes, wider].map((set) => [set.id, set])) };
    const after = renders(next);
    assert.deepEqual(
      [...before.sets.keys(), ...after.sets.keys()],
      ['nodewall-peers-four-h4', 'nodewall-peers-four-n4'],
    );
    assert.ok(restoreText(after.families[4]).includes('--match-set nodewall-peers-four-n4 src'));
    assert.ok(!restoreText(after.families[4]).includes('nodewall-peers-four-h4'));
  });
});

function typeOf(family: 4 | 6, cidrs: readonly string[], addresses: readonly string[]): string {
  const blocks = cidrs.map((text) => ({ cidr: parseCidr(text)?.cidr ?? assert.fail(text), except: [] }));
  const { v4, v6 } = toMemberSet(blocks, addresses);
  const members = family === 4 ? v4 : v6;
  const set: NamedSet = {
    name: `peers-a-v${family}`,
    family,
    key: 'address',
    interval: false,
    members,
    comment: null,
  };
  assert.equal(toIpSet(set).members, members);
  return toIpSet(set).type;
}

describe('an ipset', () => {
  it('is a hash:net if it has prefixes, else a hash:ip', () => {
    assert.equal(typeOf(4, [], ['192.0.2.1', '10.0.0.0']), 'hash:ip');
    assert.equal(typeOf(4, ['10.0.0.0/8'], ['192.0.2.1']), 'hash:net');
    assert.equal(typeOf(6, ['10.0.0.0/8'], ['2001:db8::1']), 'hash:ip');
    assert.equal(typeOf(4, [], []), 'hash:ip');
  });

  it('is a hash:net if it has the unspecified address, which no hash:ip can store', () => {
    assert.equal(typeOf(4, [], ['192.0.2.1', '0.0.0.0']), 'hash:net');
    assert.equal(typeOf(6, [], ['::']), 'hash:net');
    assert.equal(typeOf(6, [], ['::1']), 'hash:ip');
  });
});
