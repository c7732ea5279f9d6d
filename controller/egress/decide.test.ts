import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG, type EgressConfig } from '../../apis/egress/config.ts';
import type { EgressAnswer, EgressFlow } from '../../apis/egress/flow.ts';
import {
  egressInput,
  fakeGateway as gateway,
  fakeNode as node,
  fakePod as pod,
  fakePolicy as policy,
} from '../../test/fake/egress-objects.ts';
import { compileEgress, type EgressInput } from './compile-egress.ts';
import { type EgressExplainer, egressExplainer } from './decide.ts';

const NODES = [
  node('n1', ['10.0.0.1', 'fd00::1'], { podCIDRs: ['10.244.1.0/24'] }),
  node('n2', ['10.0.0.2'], { podCIDRs: ['10.244.2.0/24'] }),
];
const PODS = [
  pod('shop/web', ['10.244.1.7', 'fd10::7'], { node: 'n1', labels: { app: 'web' } }),
  pod('shop/host', [], { node: 'n1', hostNetwork: true }),
  pod('bank/db', ['10.9.0.5'], { node: 'n2' }),
];
const GATEWAY = gateway('internet', { ranges: ['198.51.100.0/29'], default: true });

function explainer(objects: Partial<EgressInput>, config: Partial<EgressConfig> = {}): EgressExplainer {
  const input = egressInput({ nodes: NODES, pods: PODS, egressGateways: [GATEWAY], ...objects });
  return egressExplainer(input, compileEgress(input, { ...DEFAULT_EGRESS_CONFIG, ...config }));
}

/** An answer in words: verdict, reason, and what is not null. */
function words(answer: EgressAnswer): string {
  const { verdict, reason, policy: by, gateway: through, node: at, address } = answer;
  return [verdict, reason, by, through, at, address].filter((word) => word !== null).join(' ');
}

type Case = readonly [flow: Omit<EgressFlow, 'traffic'>, answer: string | RegExp];

function check(explain: EgressExplainer, cases: readonly Case[]): void {
  for (const [flow, expected] of cases) {
    const answer = words(explain({ traffic: 'Egress', ...flow }));
    if (typeof expected === 'string') assert.equal(answer, expected, JSON.stringify(flow));
    else assert.match(answer, expected, JSON.stringify(flow));
  }
}

describe('the decision of an egress flow', () => {
  it('comes before all policies for destinations inside, hosts and unknown pods', () => {
    const explain = explainer(
      { egressPolicies: [policy('all', { action: 'Drop' })] },
      { inside: ['192.0.2.0/24'], serviceCIDRs: ['10.96.0.0/12'] },
    );
    const inside = ['10.244.2.9', '10.0.0.2', '10.9.0.5', '198.51.100.6', '10.96.0.1', '192.0.2.1'];
    check(explain, [
      ...[
        ...inside,
        '127.0.0.1',
        '169.254.1.1',
        '224.0.0.1',
        '255.255.255.255',
        'fe80::1',
        'ff02::1',
        '::1',
        'fd00::1',
      ].map((dst): Case => [{ pod: 'shop/web', dst }, 'Direct inside']),
      // The network's own address and its broadcast address are no addresses of the pool.
      [{ pod: 'shop/web', dst: '198.51.100.0' }, 'Drop policy all'],
      [{ pod: 'shop/web', dst: '198.51.100.7' }, 'Drop policy all'],
      [{ pod: 'shop/host', dst: '1.1.1.1' }, 'Direct host'],
      [{ src: '10.0.0.2', dst: '1.1.1.1' }, 'Direct host'],
      [{ src: '10.244.1.8', dst: '1.1.1.1' }, 'Drop unknown-pod'],
      [{ src: '10.244.1.8', dst: '10.0.0.1' }, 'Direct inside'],
      [{ src: '10.244.1.7', dst: '1.1.1.1' }, 'Drop policy all'],
      [{ src: '172.16.0.1', dst: '1.1.1.1' }, 'Direct no-policy'],
    ]);
  });

  it('takes a source that nobody has for a pod where Nodes say no pod networks, as nodes do', () => {
    const nodes = [node('n1', ['10.0.0.1'])];
    const egressPolicies = [
      policy('subnet', { action: 'Drop', appliedTo: [{ podSubnets: ['172.16.0.0/24'] }] }),
    ];
    const pool = { kind: 'IPPool', name: 'calico', cidrs: ['10.50.0.0/16'] } as const;
    const held = 'Drop unknown-pod';
    check(explainer({ nodes, egressPolicies }), [
      [{ src: '10.7.0.8', dst: '1.1.1.1' }, held],
      [{ src: '172.16.0.1', dst: '1.1.1.1' }, 'Drop policy subnet'],
      [{ src: '8.8.8.8', dst: '1.1.1.1' }, 'Direct no-policy'],
      [{ src: '10.0.0.1', dst: '1.1.1.1' }, 'Direct host'],
    ]);
    check(explainer({ nodes, egressPolicies, insideNetworks: [pool] }), [
      [{ src: '10.50.0.8', dst: '1.1.1.1' }, held],
      [{ src: '10.7.0.8', dst: '1.1.1.1' }, 'Direct no-policy'],
    ]);
    check(explainer({ nodes, egressPolicies }, { podCIDRs: ['10.60.0.0/16'] }), [
      [{ src: '10.60.0.8', dst: '1.1.1.1' }, held],
      [{ src: '10.7.0.8', dst: '1.1.1.1' }, 'Direct no-policy'],
    ]);
    check(explainer({ nodes, egressPolicies }, { unknownPods: 'Pass' }), [
      [{ src: '10.7.0.8', dst: '1.1.1.1' }, 'Direct no-policy'],
    ]);
  });

  it('lets unknown pods go without a policy that is enforced, and with unknownPods: Pass', () => {
    const flow = { src: '10.244.1.8', dst: '1.1.1.1' };
    check(explainer({}), [[flow, 'Direct no-policy']]);
    check(explainer({ egressPolicies: [policy('a', { mode: 'Audit' })] }), [[flow, 'Direct no-policy']]);
    const egressPolicies = [policy('a', { action: 'Drop' })];
    check(explainer({ egressPolicies }, { unknownPods: 'Pass' }), [[flow, 'Direct no-policy']]);
  });

  it('takes the ServiceCIDRs, and those of the configuration only where there are none', () => {
    const egressPolicies = [policy('all', { action: 'Drop' })];
    const insideNetworks = [{ kind: 'ServiceCIDR', name: 'k', cidrs: ['10.96.0.0/16'] }] as const;
    check(explainer({ egressPolicies, insideNetworks }, { serviceCIDRs: ['10.97.0.0/16'] }), [
      [{ pod: 'shop/web', dst: '10.96.0.1' }, 'Direct inside'],
      [{ pod: 'shop/web', dst: '10.97.0.1' }, 'Drop policy all'],
    ]);
  });

  it('is that of the first policy by stage, priority, name', () => {
    const drop = { action: 'Drop' } as const;
    const explain = explainer({
      egressPolicies: [
        policy('first', { ...drop, stage: 'Override', priority: 9, to: ['1.0.0.0/30'] }),
        policy('audit', { ...drop, stage: 'Override', mode: 'Audit', to: ['1.0.0.0/29'] }),
        policy('shop/b', { ...drop, to: ['1.0.0.0/28'] }),
        policy('shop/a', { ...drop, to: ['1.0.0.0/27'], except: ['1.0.0.16/28'] }),
        policy('shop/z', { ...drop, priority: 1, to: ['1.0.0.8/32'] }),
        policy('last', { ...drop, priority: -1, to: ['1.0.0.0/26'] }),
      ],
    });
    check(explain, [
      [{ pod: 'shop/web', dst: '1.0.0.1' }, 'Drop policy first'],
      [{ pod: 'shop/web', dst: '1.0.0.5' }, 'Drop policy shop/a'],
      [{ pod: 'shop/web', dst: '1.0.0.8' }, 'Drop policy shop/z'],
      [{ pod: 'shop/web', dst: '1.0.0.17' }, 'Drop policy last'],
      [{ pod: 'bank/db', dst: '1.0.0.8' }, 'Drop policy last'],
      [{ pod: 'shop/web', dst: '1.0.0.64' }, 'Direct no-policy'],
    ]);
    const flow = { traffic: 'Egress', pod: 'shop/web', dst: '1.0.0.5' } as const;
    const { audited, considered } = explain(flow, { considered: true });
    assert.deepEqual(audited, [{ policy: 'audit', action: 'Drop' }]);
    assert.deepEqual(
      considered?.map(({ policy: name, mismatch, outcome }) => [name, mismatch, outcome]),
      [
        ['first', 'destination', 'no match'],
        ['audit', null, 'audited'],
        ['shop/z', 'destination', 'no match'],
        ['shop/a', null, 'decided'],
      ],
    );
  });

  it('compares podSubnets with the source, whether it is a pod or not', () => {
    const podSubnets = ['172.16.0.0/24', '10.9.0.0/24', '10.244.1.0/24', '10.0.0.0/24'];
    const explain = explainer({
      egressPolicies: [
        policy('both', { action: 'Direct', appliedTo: [{ podSubnets, podSelector: {} }], to: ['2.0.0.0/8'] }),
        policy('subnet', { action: 'Drop', appliedTo: [{ podSubnets }] }),
      ],
    });
    check(explain, [
      [{ src: '172.16.0.1', dst: '1.1.1.1' }, 'Drop policy subnet'],
      [{ src: '172.16.0.1', dst: '2.1.1.1' }, 'Drop policy subnet'],
      [{ pod: 'bank/db', dst: '2.1.1.1' }, 'Direct policy both'],
      [{ pod: 'bank/db', dst: '1.1.1.1' }, 'Drop policy subnet'],
      // The pod's address of this family is in no subnet.
      [{ pod: 'shop/web', dst: '2600::1' }, 'Direct no-policy'],
      [{ src: '10.0.0.1', dst: '1.1.1.1' }, 'Direct host'],
      [{ src: '10.244.1.99', dst: '1.1.1.1' }, 'Drop unknown-pod'],
    ]);
  });

  it('names the gateway, its node and the address', () => {
    const explain = explainer({ egressPolicies: [policy('shop/p')] });
    check(explain, [
      [{ pod: 'shop/web', dst: '1.1.1.1' }, /^Gateway policy shop\/p internet n[12] 198\.51\.100\.1$/],
      [{ pod: 'shop/web', dst: '2600::1' }, 'Drop no-family shop/p internet'],
      [{ pod: 'bank/db', dst: '1.1.1.1' }, 'Direct no-policy'],
    ]);
  });

  it('finds the gateway by name, by the label of the namespace, or as the default', () => {
    const namespaces = [
      { kind: 'Namespace', name: 'shop', labels: { 'nodewall.io/egress-gateway': 'other', team: 'a' } },
      { kind: 'Namespace', name: 'bank', labels: { 'nodewall.io/egress-gateway': 'lost' } },
    ] as const;
    const ranges = ['203.0.113.1'];
    const other = gateway('other', { ranges, allowedNamespaces: { matchLabels: { team: 'a' } } });
    const closed = gateway('closed', { ranges: ['203.0.113.2'], allowedNamespaces: null });
    const ask = (name: string, pods: string, by?: string): string => {
      const spec = by === undefined ? {} : { gateway: by };
      const egressGateways = [GATEWAY, other, closed];
      const explain = explainer({ namespaces, egressGateways, egressPolicies: [policy(name, spec)] });
      return words(explain({ traffic: 'Egress', pod: pods, dst: '1.1.1.1' })).replace(/ n[12]/, '');
    };
    assert.equal(ask('shop/p', 'shop/web'), 'Gateway policy shop/p other 203.0.113.1');
    assert.equal(ask('bank/p', 'bank/db'), 'Drop no-gateway bank/p');
    assert.equal(ask('bank/p', 'bank/db', 'other'), 'Drop no-gateway bank/p other');
    assert.equal(ask('shop/p', 'shop/web', 'closed'), 'Drop no-gateway shop/p closed');
    assert.equal(ask('p', 'shop/web', 'closed'), 'Gateway policy p closed 203.0.113.2');
    assert.equal(ask('p', 'shop/web'), 'Gateway policy p internet 198.51.100.1');
  });

  it('goes directly where the gateway is unavailable and the policy says so', () => {
    const nodes = [
      { name: 'n1', ready: false },
      { name: 'n2', ready: false },
    ];
    const gone = gateway('gone', { ranges: ['203.0.113.1'] }, { nodes, slots: [] });
    const egressPolicies = [policy('p', { gateway: 'gone', whenUnavailable: 'Direct' })];
    check(explainer({ egressGateways: [gone], egressPolicies }), [
      [{ pod: 'shop/web', dst: '1.1.1.1' }, 'Direct not-ready p gone'],
      [{ pod: 'shop/web', dst: '2600::1' }, 'Direct no-family p gone'],
    ]);
  });

  it('uses the addresses of ready nodes with source Node', () => {
    const spec = { source: 'Node', default: true } as const;
    const ask = (more: object, dst: string): string => {
      const status = { nodes: [{ name: 'n1', ready: !('unready' in more) }], slots: [] };
      const egressGateways = [gateway('g', { ...spec, ...more }, status)];
      const explain = explainer({ egressGateways, egressPolicies: [policy('p')] });
      const answer = explain({ traffic: 'Egress', pod: 'shop/web', dst });
      return [words(answer), ...(answer.nodes ?? [])].join(' ');
    };
    assert.match(ask({}, '1.1.1.1'), /^Gateway policy p g (n1 10\.0\.0\.1|n2 10\.0\.0\.2)$/);
    assert.equal(ask({}, '2600::1'), 'Gateway policy p g n1 fd00::1');
    assert.equal(ask({ unready: true }, '2600::1'), 'Drop not-ready p g');
    assert.equal(ask({ unready: true }, '1.1.1.1'), 'Gateway policy p g n2 10.0.0.2');
    assert.equal(ask({ choice: 'Spread' }, '1.1.1.1'), 'Gateway policy p g n1 10.0.0.1 n1 n2');
    assert.equal(ask({ choice: 'Spread' }, '2600::1'), 'Gateway policy p g n1 fd00::1');
    assert.match(ask({ interface: 'eth1' }, '1.1.1.1'), /^Gateway policy p g n[12]$/);
  });

  it('refuses the name of a pod that is not there', () => {
    assert.throws(() => explainer({})({ traffic: 'Egress', pod: 'shop/gone', dst: '1.1.1.1' }), {
      name: 'TypeError',
      message: 'pod: there is no running pod shop/gone in the manifests',
    });
  });
});
