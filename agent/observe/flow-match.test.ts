import assert from 'node:assert/strict';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Explanation, Flow } from '../../apis/flow.ts';
import { fixedNames, nameResolver } from '../../apis/names.ts';
import { ingress, nodeState } from '../../test/fake/node-state.ts';
import { cidr, policy, type Rule, tcp } from '../../test/kernel/manifests.ts';
import { explain } from './explain.ts';

const CONFIG: Config = {
  ...DEFAULT_CONFIG,
  interfaceGroups: { pods: 8, clusternet: 9, uplink: 20 },
  failsafe: { ingress: [], egress: [] },
};

function mismatch(answer: Explanation): string | null {
  return answer.considered?.[0]?.mismatch ?? null;
}

describe('interface groups', () => {
  const FLOW: Flow = {
    direction: 'ingress',
    src: '198.51.100.7',
    dst: '192.0.2.1',
    protocol: 'tcp',
    dstPort: 80,
  };
  const ask = (from: readonly object[], flow: Partial<Flow>, rule: Partial<Rule> = {}) =>
    mismatch(
      explain(nodeState(ingress('p', { name: 'r', action: 'Drop', from, ...rule })), CONFIG)(
        { ...FLOW, ...flow },
        { considered: true },
      ),
    );
  const uplink = [{ interfaceGroup: 20 }, { interfaceGroup: 'clusternet' }];

  it('match by number, or by the name in the configuration', () => {
    for (const group of [20, 'uplink', 9, 'clusternet']) {
      assert.equal(ask(uplink, { interfaceGroup: group }), null, `${group}`);
    }
    for (const group of [8, 'pods', 21, undefined, 'constructor']) {
      assert.equal(
        ask(uplink, group === undefined ? {} : { interfaceGroup: group }),
        'interface',
        `${group}`,
      );
    }
  });

  it('are OR-ed with the addresses', () => {
    const peers = [...uplink, cidr('10.0.0.0/8')];
    assert.equal(ask(peers, { interfaceGroup: 20 }), null);
    assert.equal(ask(peers, { src: '10.0.0.7', interfaceGroup: 8 }), null);
    assert.equal(ask(peers, { interfaceGroup: 8 }), 'address');
    assert.equal(ask(peers, {}), 'address');
  });

  it('are AND-ed with the ports', () => {
    assert.equal(ask(uplink, { interfaceGroup: 20 }, { ports: [tcp(81)] }), 'service');
  });

  it('that the configuration does not know are refused', () => {
    const state = nodeState(ingress('p', { name: 'r', action: 'Drop', from: uplink }));
    const [rule] = state.rules;
    assert.ok(rule !== undefined);
    const strange = {
      ...state,
      rules: [{ ...rule, peers: [{ kind: 'interfaces', groups: ['uplnik'] } as const] }],
    };
    assert.throws(
      () => explain(strange, CONFIG),
      /no interface group "uplnik" in the configuration; known: pods, clusternet, uplink/,
    );
  });
});

describe('toServices', () => {
  const FLOW: Flow = {
    direction: 'egress',
    src: '192.0.2.1',
    dst: '10.96.0.10',
    protocol: 'tcp',
    dstPort: 443,
  };
  const web = { name: 'web', namespace: 'shop' };
  const spec: object = { egress: [{ name: 'r', action: 'Drop', toServices: [web] }] };
  const state = nodeState(
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: web,
      spec: { clusterIPs: ['10.96.0.10', 'fd00:96::a'], ports: [{ name: 'https', port: 443 }] },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
      addressType: 'IPv4',
      ports: [{ name: 'https', protocol: 'TCP', port: 8443 }],
      endpoints: [{ addresses: ['10.1.0.1'], conditions: { ready: true } }],
    },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web-1', namespace: 'shop' },
      status: { podIP: '10.1.0.1' },
    },
    policy('p', spec),
  );
  const ask = (flow: Partial<Flow>) =>
    mismatch(explain(state, CONFIG)({ ...FLOW, ...flow }, { considered: true }));

  it('matches the cluster IPs and the endpoints, each with its own ports', () => {
    for (const flow of [
      {},
      { protocol: 6 },
      { dst: 'fd00:96:0::a', src: 'fd00::1' },
      { dst: '10.1.0.1', dstPort: 8443 },
    ] as const) {
      assert.equal(ask(flow), null, JSON.stringify(flow));
    }
    for (const flow of [
      { dst: '10.1.0.1' },
      { dstPort: 8443 },
      { protocol: 'udp' },
      { protocol: 'sctp' },
      { dst: '10.96.0.11' },
      { direction: 'ingress', src: '10.96.0.10', dst: '192.0.2.1' },
    ] as const) {
      if ('direction' in flow) assert.equal(explain(state, CONFIG)({ ...FLOW, ...flow }).reason, 'default');
      else assert.equal(ask(flow), 'service', JSON.stringify(flow));
    }
  });

  it('matches no flow without address, protocol or port', () => {
    for (const field of ['dst', 'protocol', 'dstPort'] as const) {
      const { [field]: _, ...flow } = FLOW;
      assert.equal(mismatch(explain(state, CONFIG)(flow, { considered: true })), 'service', field);
    }
  });

  it('matches nothing if the Service does not exist', () => {
    const empty = nodeState(policy('p', spec));
    assert.equal(explain(empty, CONFIG)(FLOW).verdict, 'Allow');
  });
});

describe('names', () => {
  const state = nodeState(
    policy('p', {
      egress: [{ name: 'r', action: 'Drop', to: [{ fqdn: '*.example.com' }, cidr('10.0.0.0/8')] }],
    }),
  );
  const names = fixedNames(
    new Map([
      ['www.example.com', ['192.0.2.80', '2001:db8::80']],
      ['example.com', ['192.0.2.81']],
    ]),
  );
  const ask = (of: typeof state, dst: string) =>
    explain(of, CONFIG)({ direction: 'egress', dst, protocol: 'tcp', dstPort: 80 }).verdict;

  it('match the addresses that they resolved to', () => {
    const resolved = nameResolver()(state, names);
    assert.equal(ask(resolved, '192.0.2.80'), 'Drop');
    assert.equal(ask(resolved, '2001:db8::80'), 'Drop');
    assert.equal(ask(resolved, '10.0.0.1'), 'Drop');
    assert.equal(ask(resolved, '192.0.2.81'), 'Allow');
  });

  it('match nothing before they are resolved', () => {
    assert.equal(ask(state, '192.0.2.80'), 'Allow');
    assert.equal(ask(state, '10.0.0.1'), 'Drop');
  });
});
