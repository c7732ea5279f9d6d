import assert from 'node:assert/strict';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { formatFamily, toMemberSet } from '../../lib/net/member-set.ts';
import { addressSet, compiledRule, fromSet, stateOf } from '../../test/fake/node-state.ts';
import { chainLines } from './nft-text.ts';
import { render, renderer } from './render.ts';

const nodes = addressSet('nodes', { description: 'nodes {}', members: toMemberSet([], ['192.0.2.1']) });
const rule = compiledRule;

function state(...rules: CompiledRule[]): NodeState {
  return stateOf(rules, { addressSets: new Map([[nodes.id, nodes]]) });
}

/** The lines of one chain, without hashes. */
function lines(given: NodeState, chain: string, config: Config = DEFAULT_CONFIG): string[] | undefined {
  const found = render(given, config).chains.get(chain);
  return found && chainLines(found).map((line) => line.replaceAll(/-[0-9a-f]{10}(?=[-\s]|$)/g, ''));
}

const web = rule('web', { services: [{ protocol: 'tcp', ports: [80, 80] }] });

describe('render', () => {
  it('has only the fixed chains for no rules', () => {
    const { chains, sets, maps } = render(state(), DEFAULT_CONFIG);
    assert.deepEqual([...chains.keys()], ['input', 'own-copies', 'output', 'ingress', 'egress', 'refuse']);
    assert.equal(sets.size + maps.size, 0);
  });

  it('has base chains that accept exempt traffic, then jump to the index', () => {
    const input = lines(state(), 'input') ?? [];
    assert.equal(input[0], 'type filter hook input priority 0; policy accept;');
    assert.equal(input[1], 'ct state established,related accept');
    assert.equal(input.at(-1), 'jump ingress');
    assert.ok(lines(state(), 'output')?.includes('oifgroup 8 accept comment "exemption localPods"'));
    assert.ok(!input.some((line) => line.includes('localPods')), 'ingress from pods is judged');
  });

  it('exempts the destinations routed to local pods, if the agent knows them: new members change no rule', () => {
    const pods = (...addresses: string[]): NodeState => ({
      ...state(web),
      localPods: addressSet('local-pods', { members: toMemberSet([], addresses) }),
    });
    const expected = [
      'oifgroup 8 accept comment "exemption localPods"',
      'ct status dnat ip daddr @peers-local-pods-v4 accept comment "exemption localPods"',
      'ct status dnat ip6 daddr @peers-local-pods-v6 accept comment "exemption localPods"',
    ];
    const rendered = renderer(DEFAULT_CONFIG);
    const [none, one] = [rendered(pods()), rendered(pods('10.1.0.2'))];
    const output = one.chains.get('output') ?? assert.fail();
    assert.deepEqual(
      chainLines(output).filter((line) => line.includes('localPods')),
      expected,
    );
    assert.equal(none.chains, one.chains);
    const { members } = one.sets.get('peers-local-pods-v4') ?? assert.fail();
    assert.deepEqual(formatFamily({ family: 4, ...members }), ['10.1.0.2']);
    const exemptions = { ...DEFAULT_CONFIG.exemptions, localPods: false };
    const off = { ...DEFAULT_CONFIG, antiSpoofing: false, exemptions };
    assert.equal(render(pods('10.1.0.2'), off).sets.size, 0);
  });

  it('has a failsafe index only if a rule could be skipped', () => {
    assert.equal(lines(state(web), 'ingress-failsafe'), undefined);
    assert.equal(lines(state(rule('open', { action: 'Allow' })), 'ingress-failsafe'), undefined);
    assert.deepEqual(lines(state(rule('all')), 'ingress-failsafe'), []);
    // Where it has rules for the protocol, packets go on there at once: only answers by UDP come.
    const onTcp = ['meta l4proto tcp goto ingress-failsafe-tcp'];
    assert.deepEqual(lines(state(rule('all'), web), 'ingress-failsafe'), onTcp);
    const off: Config = { ...DEFAULT_CONFIG, failsafe: { ingress: [], egress: [] } };
    assert.equal(lines(state(rule('all')), 'ingress-failsafe', off), undefined);
  });

  it('has a failsafe index for answers to the other direction alone', () => {
    const { egress } = DEFAULT_CONFIG.failsafe;
    const config: Config = { ...DEFAULT_CONFIG, failsafe: { ingress: [], egress } };
    const failsafe = lines(state(rule('all')), 'ingress', config)?.filter((line) =>
      line.includes('failsafe'),
    );
    assert.ok(failsafe?.length);
    assert.ok(failsafe.every((line) => line.startsWith('ct state untracked ')));
    assert.deepEqual(lines(state(rule('all')), 'egress', config), []);
  });

  it('has a separate failsafe index for each direction', () => {
    const given = state(rule('all'));
    const to = 'goto ingress-failsafe comment "failsafe"';
    assert.ok(lines(given, 'ingress')?.some((line) => line.endsWith(to)));
    assert.deepEqual(lines(given, 'egress'), []);
  });

  it('compares only packets of a protocol with what is for it alone', () => {
    const udp = rule('udp', { services: [{ protocol: 'udp', ports: [53, 53] }] });
    const given = state(web, udp, rule('all'));
    const [first, second] = [100, 200].map(
      (port) => ({ protocol: 'tcp', ports: [port, port], peers: 'any' }) as const,
    );
    const office = { protocol: 'tcp', ports: [22, 22], peers: ['192.0.2.0/24'] } as const;
    assert.ok(first && second);
    const config = { ...DEFAULT_CONFIG, failsafe: { ingress: [first, second, office], egress: [] } };
    assert.deepEqual(lines(given, 'ingress', config), [
      'meta l4proto tcp goto ingress-tcp',
      'meta l4proto udp goto ingress-udp',
      'icmpv6 type { 133, 134, 135, 136 } accept comment "exemption neighborDiscovery"',
      'icmpv6 type { 130, 131, 132, 143 } accept comment "exemption multicastListener"',
      'jump ingress-p-all',
    ]);
    assert.deepEqual(lines(given, 'ingress-tcp', config), [
      'th dport { 22, 100, 200 } goto ingress-tcp-to-failsafe',
      'ct status dnat goto ingress-tcp-to-failsafe-nat',
      'goto ingress-tcp-rules',
    ]);
    assert.deepEqual(lines(given, 'ingress-tcp-to-failsafe', config)?.slice(-2), [
      'ct status dnat goto ingress-tcp-to-failsafe-nat',
      'goto ingress-tcp-rules',
    ]);
    assert.equal(lines(given, 'ingress-tcp-to-failsafe-nat', config)?.at(-1), 'goto ingress-tcp-rules');
    assert.deepEqual(lines(given, 'ingress-tcp-rules', config), ['jump ingress-p-web', 'jump ingress-p-all']);
    assert.deepEqual(lines(given, 'ingress-udp', config), [
      'ip daddr 255.255.255.255 th sport 67 th dport 68 accept comment "exemption dhcpClient"',
      'ip6 daddr fe80::/10 th sport 547 th dport 546 accept comment "exemption dhcpClient"',
      'jump ingress-p-udp',
      'jump ingress-p-all',
    ]);
  });

  it('keeps rules that name their ports in the failsafe index', () => {
    const kubelet = rule('kubelet', { services: [{ protocol: 'tcp', ports: [10250, 10250] }] });
    assert.deepEqual(lines(state(rule('all'), kubelet), 'ingress-failsafe-tcp'), ['jump ingress-p-kubelet']);
    // Destination NAT may lead from a port of the list to any port.
    assert.deepEqual(lines(state(rule('all'), web), 'ingress-failsafe-tcp'), ['jump ingress-p-web']);
  });

  it('writes wide failsafe ranges as comparisons, narrow ones as single ports: no interval set in a chain that changes', () => {
    const entry = (first: number, last: number) =>
      ({ protocol: 'udp', ports: [first, last], peers: 'any' }) as const;
    const config: Config = {
      ...DEFAULT_CONFIG,
      failsafe: { ingress: [entry(1, 3), entry(3, 4), entry(7000, 7999)], egress: [] },
    };
    const failsafe = lines(state(rule('all')), 'ingress', config)?.filter((line) =>
      line.includes('failsafe'),
    );
    assert.deepEqual(failsafe?.slice(0, 2), [
      'udp dport { 1, 2, 3, 4 } counter goto ingress-failsafe comment "failsafe"',
      'udp dport 7000-7999 counter goto ingress-failsafe comment "failsafe"',
    ]);
    assert.deepEqual(failsafe?.slice(2), [
      'ct status dnat meta l4proto udp ct original proto-dst { 1, 2, 3, 4 } counter goto ingress-failsafe comment "failsafe"',
      'ct status dnat meta l4proto udp ct original proto-dst 7000-7999 counter goto ingress-failsafe comment "failsafe"',
    ]);
  });

  it('leaves out a rule whose peers can never have members', () => {
    const none = addressSet('none', { dynamic: false });
    const given = state(rule('never', { peers: fromSet('none') }));
    const { chains } = render({ ...given, addressSets: new Map([['none', none]]) }, DEFAULT_CONFIG);
    assert.ok(![...chains.values()].some(({ source }) => source !== null));
  });

  it('throws on an AddressSet that the state lacks', () => {
    assert.throws(
      () => render(state(rule('r', { peers: fromSet('gone') })), DEFAULT_CONFIG),
      /does not contain its set gone/,
    );
  });

  describe('with Pass', () => {
    const pass = rule('pass', { action: 'Pass' });
    const baseline = rule('base', { tierPriority: 253, action: 'Allow' });
    const jumps = (given: NodeState) =>
      (lines(given, 'input') ?? []).filter((line) => line.startsWith('jump ingress'));

    it('has an index of the baseline tier after the other one', () => {
      const given = state(rule('other', { mode: 'Audit' }), pass, baseline);
      assert.deepEqual(jumps(given), ['jump ingress', 'jump ingress-baseline']);
      assert.deepEqual(
        lines(given, 'ingress')?.filter((line) => line.startsWith('jump')),
        ['jump ingress-p-other', 'jump ingress-p-pass'],
      );
      assert.deepEqual(lines(given, 'ingress-baseline'), ['jump ingress-p-base']);
      assert.deepEqual(lines(given, 'ingress-pass'), ['jump ingress-baseline', 'accept']);
    });

    it('has no second index without baseline rules, or if only an Audit rule passes', () => {
      assert.deepEqual(jumps(state(pass)), ['jump ingress']);
      assert.deepEqual(lines(state(pass), 'ingress-pass'), ['accept']);
      const audit = rule('pass', { action: 'Pass', mode: 'Audit' });
      assert.deepEqual(jumps(state(audit, baseline)), ['jump ingress']);
      assert.equal(lines(state(audit, baseline), 'ingress-pass'), undefined);
    });

    it('evaluates the failsafe list before a baseline Drop', () => {
      const given = state(pass, rule('closed', { tierPriority: 253 }));
      assert.match((lines(given, 'ingress-baseline') ?? []).join('\n'), /goto ingress-baseline-failsafe/);
      assert.doesNotMatch((lines(given, 'ingress') ?? []).join('\n'), /failsafe/);
    });
  });

  it('evaluates NodePort traffic separately, without the failsafe list', () => {
    const given = state(rule('all'), rule('np', { traffic: 'NodePort' }));
    assert.deepEqual(lines(given, 'nodeport'), ['jump nodeport-p-np']);
    assert.equal((lines(given, 'nodeport-entry') ?? []).at(-1), 'jump nodeport');
    assert.ok(!(lines(given, 'ingress') ?? []).join().includes('-np'));
  });

  it('copies DNS answers only if a rule has fqdn peers', () => {
    const named = addressSet('named', { names: ['example.com'] });
    const given = stateOf([rule('web', { peers: fromSet('named') })], {
      addressSets: new Map([['named', named]]),
      nameServers: ['192.0.2.53/32'],
    });
    const copies = (config: Config, of = given) =>
      (lines(of, 'input', config) ?? []).filter((line) => line.includes('dns'));
    assert.equal(copies(DEFAULT_CONFIG).length, 1);
    assert.equal(copies({ ...DEFAULT_CONFIG, names: { ...DEFAULT_CONFIG.names, learn: false } }).length, 0);
    assert.equal(copies(DEFAULT_CONFIG, state(rule('web'))).length, 0);
    // The command compile knows no servers but those of the configuration.
    const { nameServers: _, ...unknown } = given;
    assert.equal(copies(DEFAULT_CONFIG, unknown).length, 0);
    const learnFrom = ['192.0.2.0/24'];
    assert.equal(
      copies({ ...DEFAULT_CONFIG, names: { ...DEFAULT_CONFIG.names, learnFrom } }, unknown).length,
      1,
    );
  });
});
