import assert from 'node:assert/strict';
import type { ConntrackEntry } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress, toMemberSet } from '../../lib/net/member-set.ts';
import { nodeState } from '../../test/fake/node-state.ts';
import { policy, type Rule, tcp } from '../../test/kernel/manifests.ts';
import { connectionFlows } from './connection-flows.ts';
import { connectionJudge } from './connection-judge.ts';
import { type NodeFacts, OwnAddresses } from './node-facts.ts';

const NODE = '192.0.2.1';
const CLIENT = '198.51.100.7';
const POD = '10.244.0.5';
const { pods: PODS, clusternet: CLUSTERNET } = DEFAULT_CONFIG.interfaceGroups;

function bytes(text: string): Uint8Array {
  const address = parseAddress(text);
  assert.ok(address !== null);
  return packAddress(address);
}

function entry(
  src: string,
  dst: string,
  port: number,
  changes: Partial<ConntrackEntry> = {},
): ConntrackEntry {
  const tuple = (source: string, destination: string, sourcePort: number, destinationPort: number) => {
    const ends = { source: bytes(source), destination: bytes(destination), sourcePort, destinationPort };
    return { ...ends, icmpType: null, icmpCode: null };
  };
  return {
    family: 4,
    protocol: 6,
    status: 14,
    tcpState: 3,
    original: tuple(src, dst, 40_000, port),
    reply: tuple(dst, src, port, 40_000),
    mark: 0,
    labels: new Uint8Array(0),
    identity: [],
    ...changes,
  };
}

const FACTS: NodeFacts = {
  own: new OwnAddresses([NODE]),
  groups: [0, 0, 8, 9],
  localPods: toMemberSet([], [POD]),
};

function flows(one: ConntrackEntry, facts = FACTS, named: readonly number[] = []) {
  const declared = new OwnAddresses([]);
  const found = connectionFlows({ facts, config: DEFAULT_CONFIG, declared, named: new Set(named) })(one);
  return found.map(({ flow, groups }) => [flow.direction, flow.traffic, groups]);
}

function rule(state: NodeState, one: ConntrackEntry, facts = FACTS, config: Config = DEFAULT_CONFIG) {
  return connectionJudge({ state, config, facts, onlyRecheck: false })(one)?.rule.source.rule ?? null;
}

describe('flows of a connection', () => {
  it('are to the Node, from the Node, and by destination NAT', () => {
    assert.deepEqual(flows(entry(CLIENT, NODE, 22)), [['ingress', 'Host', [0]]]);
    assert.deepEqual(flows(entry(NODE, CLIENT, 22)), [['egress', 'Host', [0]]]);
    const [forwarded, back] = [entry(CLIENT, NODE, 30_080), entry(POD, CLIENT, 8080)];
    const nat = { ...forwarded, status: 14 | (1 << 5), reply: back.original };
    assert.deepEqual(flows(nat), [['ingress', 'NodePort', [0]]]);
    const local = { ...nat, reply: entry(NODE, CLIENT, 8080).original };
    assert.deepEqual(flows(local), [
      ['ingress', 'NodePort', [0]],
      ['ingress', 'Host', [0]],
    ]);
    assert.deepEqual(flows(entry(NODE, '127.0.0.1', 22)), [
      ['egress', 'Host', [0]],
      ['ingress', 'Host', [0]],
    ]);
  });

  it('are none of what is forwarded, related, dying, closed, or IGMP', () => {
    assert.deepEqual(flows(entry(CLIENT, POD, 80)), []);
    for (const changes of [
      { status: 15 },
      { status: 14 | (1 << 9) },
      { tcpState: 7 },
      { tcpState: 8 },
      { protocol: 2 },
    ]) {
      assert.deepEqual(flows(entry(CLIENT, NODE, 22, changes)), [], JSON.stringify(changes));
    }
  });

  it('may have used interfaces of pods if the routes say so or are not known, and of groups that rules name', () => {
    assert.deepEqual(flows(entry(NODE, POD, 80)), [['egress', 'Host', [0, PODS]]]);
    assert.deepEqual(flows(entry(NODE, CLIENT, 80), FACTS, [CLUSTERNET]), [
      ['egress', 'Host', [0, CLUSTERNET]],
    ]);
    assert.deepEqual(flows(entry(NODE, CLIENT, 80), FACTS, [77]), [['egress', 'Host', [0]]]);
    assert.deepEqual(flows(entry(NODE, CLIENT, 80), { ...FACTS, localPods: null }), [
      ['egress', 'Host', [0, PODS]],
    ]);
    assert.deepEqual(flows(entry(NODE, CLIENT, 80), { ...FACTS, groups: [] }), [['egress', 'Host', [0]]]);
  });
});

describe('a connection is judged', () => {
  const closed = nodeState(
    policy('p', {
      ingress: [
        { name: 'cluster', action: 'Allow', from: [{ interfaceGroup: 'clusternet' }], ports: [tcp(9100)] },
        { name: 'in', action: 'Drop' },
      ],
      egress: [{ name: 'out', action: 'Drop' }],
    }),
  );

  it('so that a rule that may have allowed it, by an interface of this node, keeps it', () => {
    assert.equal(rule(closed, entry(CLIENT, NODE, 22)), 'in');
    assert.equal(rule(closed, entry(CLIENT, NODE, 9100)), null);
    assert.equal(rule(closed, entry(CLIENT, NODE, 9100), { ...FACTS, groups: [0] }), 'in');
  });

  it('so that connections to local pods go on', () => {
    assert.equal(rule(closed, entry(NODE, CLIENT, 80)), 'out');
    assert.equal(rule(closed, entry(NODE, POD, 80)), null);
    assert.equal(rule(closed, entry(NODE, CLIENT, 80), { ...FACTS, localPods: null }), null);
    const exemptions = { ...DEFAULT_CONFIG.exemptions, localPods: false };
    assert.equal(rule(closed, entry(NODE, POD, 80), FACTS, { ...DEFAULT_CONFIG, exemptions }), 'out');
  });

  it('so that names that a rule allows may have stood for its address', () => {
    const named = nodeState(
      policy('p', {
        egress: [
          { name: 'bad', action: 'Drop', to: [{ fqdn: 'bad.example.com' }], ports: [tcp(8080)] },
          { name: 'good', action: 'Allow', to: [{ fqdn: '*.example.com' }], ports: [tcp(443)] },
          { name: 'rest', action: 'Drop' },
        ],
      }),
    );
    assert.equal(rule(named, entry(NODE, CLIENT, 443)), null);
    assert.equal(rule(named, entry(NODE, CLIENT, 80)), 'rest');
    assert.equal(rule(named, entry(NODE, CLIENT, 8080)), 'rest');
  });

  it('so that names that a rule passes may have stood for its address, or not', () => {
    const rules = (...last: readonly Rule[]): NodeState =>
      nodeState(
        policy('p', {
          egress: [
            { name: 'pass', action: 'Pass', to: [{ fqdn: 'a.example.com' }] },
            ...last,
            { name: 'rest', action: 'Drop' },
          ],
        }),
        policy('base', {
          tier: 'baseline',
          egress: [
            { name: 'web', action: 'Allow', ports: [tcp(80)] },
            { name: 'base', action: 'Drop' },
          ],
        }),
      );
    const good: Rule = { name: 'good', action: 'Allow', to: [{ fqdn: 'b.example.com' }] };
    assert.equal(rule(rules(), entry(NODE, CLIENT, 443)), 'rest');
    assert.equal(rule(rules(), entry(NODE, CLIENT, 80)), null, 'the baseline tier may have allowed it');
    assert.equal(rule(rules(good), entry(NODE, CLIENT, 443)), null, 'the rule behind the Pass may have');
  });

  it('so that loopback and failsafe connections go on', () => {
    assert.equal(rule(closed, entry(NODE, NODE, 22)), null);
    assert.equal(rule(closed, entry('127.0.0.1', '127.0.0.1', 22)), null);
    assert.equal(rule(closed, entry(NODE, CLIENT, 53)), null);
  });
});
