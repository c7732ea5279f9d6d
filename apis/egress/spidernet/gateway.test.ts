import assert from 'node:assert/strict';
import { parse } from 'yaml';
import type { FieldMap } from '../../schema/json-schema.ts';
import { findings, formatPath } from '../../validate/problem.ts';
import type { EgressGateway } from '../objects.ts';
import { validateSpidernet } from './object.ts';

function read(text: string): {
  readonly gateway: EgressGateway | null;
  readonly problems: readonly string[];
} {
  const found = findings();
  const object = validateSpidernet(parse(text) as FieldMap, found);
  const problems = found.problems.map(
    ({ severity, path, message }) => `${severity} ${formatPath(path)}: ${message}`,
  );
  return { gateway: object as EgressGateway | null, problems };
}

/** A gateway of v1beta1 with these lines in its spec. */
function v1beta1(spec: string, status = '{}'): string {
  return `
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: shop}
spec:
  nodeSelector: {selector: {matchLabels: {role: edge}}}
${spec}
status: ${status}
`;
}

describe('an EgressGateway of egressgateway.spidernet.io', () => {
  it('of v1beta1 has pools in three forms, pairs, default addresses, and admits every namespace', () => {
    const { gateway, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: shop, uid: u1, generation: 3}
spec:
  clusterDefault: true
  ippools:
    ipv4: ["198.51.100.8", "198.51.100.10-198.51.100.11", "198.51.100.64/30"]
    ipv6: ["2001:DB8::1-2001:db8::5"]
    ipv4DefaultEIP: 198.51.100.8
    ipv6DefaultEIP: "2001:db8::1"
  nodeSelector:
    selector:
      matchLabels: {role: edge}
      matchExpressions: [{key: zone, operator: In, values: [a, b]}]
`);
    assert.deepEqual(problems, []);
    assert.deepEqual(gateway, {
      kind: 'EgressGateway',
      apiGroup: 'egressgateway.spidernet.io',
      name: 'shop',
      uid: 'u1',
      generation: 3,
      spec: {
        nodeSelector: {
          matchLabels: { role: 'edge' },
          matchExpressions: [{ key: 'zone', operator: 'In', values: ['a', 'b'] }],
        },
        ranges: [
          '198.51.100.8',
          '198.51.100.10-198.51.100.11',
          '198.51.100.64/30',
          '2001:db8::1-2001:db8::5',
        ],
        defaultAddress: { ipv4: '198.51.100.8', ipv6: '2001:db8::1' },
        paired: true,
        source: 'Floating',
        choice: 'Failover',
        announce: 'L2',
        probes: [],
        failover: { heartbeatMilliseconds: 500, leaseSeconds: 2, failback: false },
        allowedNamespaces: {},
        default: true,
      },
      status: null,
    });
  });

  it('takes empty strings and null as absent, but not as labels', () => {
    const { gateway, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: shop}
spec:
  ippools: {ipv4: ["", "198.51.100.8"], ipv6: [""], ipv4DefaultEIP: "", ipv6DefaultEIP: null}
  nodeSelector: {policy: "", selector: {matchLabels: {role: ""}}}
`);
    assert.deepEqual(problems, []);
    assert.deepEqual(gateway?.spec.ranges, ['198.51.100.8']);
    assert.deepEqual(gateway?.spec.nodeSelector, { matchLabels: { role: '' } });
    assert.equal(gateway?.spec.defaultAddress, undefined);
    assert.equal(gateway?.spec.paired, undefined);
    assert.equal(gateway?.spec.default, false);
  });

  it('without pools uses the addresses of its nodes', () => {
    const { gateway } = read(v1beta1('  ippools: {}'));
    assert.equal(gateway?.spec.source, 'Node');
    assert.deepEqual(gateway?.spec.ranges, []);
  });

  it('of 2023 has `ranges`, and fields that nodewall needs not', () => {
    const { gateway, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: shop}
spec:
  ranges: {ipv4: ["198.51.100.8-198.51.100.9"], policy: Random}
  nodeSelector: {policy: AverageSelection, selector: {matchLabels: {role: edge}}}
`);
    assert.deepEqual(problems, [
      'notice spec.nodeSelector.policy: "AverageSelection" is not read; nodewall spreads the addresses over the ready nodes by itself',
      'notice spec.ranges.policy: is not read; the allocatorPolicy of each policy decides which address it gets',
    ]);
    assert.deepEqual(gateway?.spec.ranges, ['198.51.100.8-198.51.100.9']);
  });

  it('of v1 has the labels directly, no pools, and is the gateway of policies that name none', () => {
    const { gateway, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1
kind: EgressGateway
metadata: {name: only}
spec:
  nodeSelector: {matchLabels: {role: edge}}
status:
  nodeList: [{name: n1, ready: true, active: true}, {name: n2, ready: false}]
`);
    assert.deepEqual(problems, []);
    assert.deepEqual(gateway?.spec.nodeSelector, { matchLabels: { role: 'edge' } });
    assert.equal(gateway?.spec.source, 'Node');
    assert.equal(gateway?.spec.defaultIfOnly, true);
    assert.deepEqual(gateway?.status, {
      nodes: [
        { name: 'n1', ready: true },
        { name: 'n2', ready: false },
      ],
      slots: [{ name: 'n1', node: 'n1', epoch: 0, addresses: [] }],
    });
  });

  it('keeps the owners of its addresses, in the words of every version', () => {
    for (const list of ['eips', 'epis']) {
      const { gateway } = read(
        v1beta1(
          '  ippools: {ipv4: ["198.51.100.8-198.51.100.9"]}',
          `
  nodeList:
    - name: n1
      status: Ready
      ${list}:
        - {ipv4: 198.51.100.8, ipv6: "2001:DB8::8", policies: [{name: app, namespace: web}]}
    - {name: n2, status: HeartbeatTimeout, ${list}: [{ipv4: 198.51.100.8}, {ipv4: 198.51.100.9, ipv6: what}]}
    - {name: n3}`,
        ),
      );
      assert.deepEqual(gateway?.status, {
        nodes: [
          { name: 'n1', ready: true },
          { name: 'n2', ready: false, reason: 'HeartbeatTimeout' },
          { name: 'n3', ready: true },
        ],
        slots: [
          { name: 'n1', node: 'n1', epoch: 0, addresses: ['198.51.100.8', '2001:db8::8'] },
          { name: 'n2', node: 'n2', epoch: 0, addresses: ['198.51.100.9'] },
        ],
        policies: [{ namespace: 'web', name: 'app', addresses: ['198.51.100.8', '2001:db8::8'] }],
      });
    }
  });

  it('gives the first slot to the node whose own address policies use', () => {
    const { gateway } = read(
      v1beta1(
        '  ippools: {ipv4: [198.51.100.8]}',
        `
  nodeList:
    - {name: n1, status: Ready, eips: [{ipv4: 198.51.100.8}]}
    - {name: n2, status: Ready, eips: [{policies: [{name: own, namespace: web}]}]}`,
      ),
    );
    assert.deepEqual(
      gateway?.status?.slots.map(({ node, addresses }) => [node, ...addresses]),
      [['n2'], ['n1', '198.51.100.8']],
    );
  });

  const REFUSED: readonly (readonly [what: string, spec: string, problem: RegExp])[] = [
    ['a pool that is none', '  ippools: {ipv4: ["198.51.100.9-198.51.100.8"]}', /ipv4\[0\]: .*lower first/],
    [
      'a range of the other family',
      '  ippools: {ipv4: ["2001:db8::1"]}',
      /ippools\.ipv4\[0\]: .*move it to ipv6/,
    ],
    [
      'a default outside the pools',
      '  ippools: {ipv4: ["198.51.100.8"], ipv4DefaultEIP: 198.51.100.9}',
      /ipv4DefaultEIP: 198\.51\.100\.9 is in no range of ippools\.ipv4/,
    ],
    ['both names of the pools', '  ippools: {}\n  ranges: {}', /spec\.ranges: is the earlier name/],
    ['an unknown field', '  ippool: {}', /spec\.ippool: unknown field; did you mean ippools\?/],
    ['text for a list', '  ippools: {ipv4: 198.51.100.8}', /ippools\.ipv4: must be a list/],
  ];
  for (const [what, spec, problem] of REFUSED) {
    it(`is refused with ${what}`, () => {
      const { gateway, problems } = read(v1beta1(spec));
      assert.equal(gateway, null);
      assert.match(problems.join('\n'), problem);
    });
  }

  it('is refused if it selects every node', () => {
    for (const nodeSelector of ['{}', '{selector: {}}', '{selector: {matchLabels: {}}}', '{policy: x}']) {
      const { gateway, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: all}
spec: {nodeSelector: ${nodeSelector}}
`);
      assert.equal(gateway, null, nodeSelector);
      assert.match(problems.join('\n'), /error spec\.nodeSelector\.selector: selects every node/);
    }
  });

  it('of v1beta1 does not take the labels directly', () => {
    const { gateway, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: all}
spec: {nodeSelector: {matchLabels: {role: edge}}}
`);
    assert.equal(gateway, null);
    assert.match(problems.join('\n'), /spec\.nodeSelector\.matchLabels: a field of v1; write selector/);
  });

  it('warns of addresses without a partner and of bits after a prefix', () => {
    const { problems } = read(v1beta1('  ippools: {ipv4: ["198.51.100.70/28"], ipv6: ["2001:db8::1"]}'));
    assert.deepEqual(problems, [
      'warning spec.ippools.ipv4[0]: 198.51.100.70/28 has bits set after the prefix; it is read as 198.51.100.64/28',
      'warning spec.ippools: has 14 IPv4 and 1 IPv6 addresses, which pair by their position; those without a partner serve policies of one family',
    ]);
  });
});
