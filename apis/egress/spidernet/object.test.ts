import assert from 'node:assert/strict';
import { parse } from 'yaml';
import type { FieldMap } from '../../schema/json-schema.ts';
import { validateObject } from '../../validate/object.ts';
import { findings, formatPath } from '../../validate/problem.ts';
import { DEFAULT_EGRESS_CONFIG } from '../config.ts';
import { validateSpidernet } from './object.ts';

function read(text: string) {
  const found = findings();
  const object = validateSpidernet(parse(text) as FieldMap, found);
  const problems = found.problems.map(
    ({ severity, path, message }) => `${severity} ${formatPath(path)}: ${message}`,
  );
  return { object, problems };
}

describe('other objects of egressgateway.spidernet.io', () => {
  it('EgressClusterInfo has networks inside the cluster: those detected, and those added', () => {
    const { object, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressClusterInfo
metadata: {name: default}
spec:
  autoDetect: {clusterIP: true, nodeIP: true, podCidrMode: auto}
  extraCidr: ["10.9.0.1", "10.10.0.0/16", "", nowhere]
status:
  clusterIP: {ipv4: [10.96.0.0/12], ipv6: ["fd00:96::/108"]}
  extraCidr: ["10.9.0.1"]
  nodeIP:
    n1: {ipv4: [192.0.2.1], ipv6: ["2001:db8::1"]}
    n2: {ipv4: [192.0.2.2]}
  podCIDR:
    pool-a: {ipv4: [10.244.0.0/16]}
  podCidrMode: calico
`);
    assert.deepEqual(problems, [
      'warning spec.extraCidr[3]: "nowhere" is not an address or a CIDR; it is left out',
    ]);
    assert.deepEqual(object, {
      kind: 'EgressClusterInfo',
      name: 'default',
      cidrs: [
        '10.9.0.1/32',
        '10.10.0.0/16',
        '10.96.0.0/12',
        'fd00:96::/108',
        '192.0.2.1/32',
        '2001:db8::1/128',
        '192.0.2.2/32',
        '10.244.0.0/16',
      ],
    });
  });

  it('EgressClusterInfo of 2023 has them in egressIgnoreCIDR', () => {
    const { object, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressClusterInfo
metadata: {name: default}
spec: {}
status:
  egressIgnoreCIDR:
    clusterIP: {ipv4: [10.96.0.0/12]}
    nodeIP: {ipv4: [192.0.2.1]}
    podCIDR: {ipv6: ["fd00:244::/48"]}
`);
    assert.deepEqual(problems, []);
    assert.ok(object?.kind === 'EgressClusterInfo');
    assert.deepEqual(object.cidrs, ['10.96.0.0/12', '192.0.2.1/32', 'fd00:244::/48']);
  });

  it('derived objects are skipped with a notice', () => {
    for (const kind of ['EgressNode', 'EgressTunnel', 'EgressEndpointSlice', 'EgressClusterEndpointSlice']) {
      const { object, problems } = read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: ${kind}
metadata: {name: n1}
status: {tunnel: {ipv4: 192.0.2.1}}
`);
      assert.equal(object, null);
      assert.deepEqual(problems, [
        'notice : is skipped: the controller of egressgateway writes it, and nodewall needs none',
      ]);
    }
  });

  it('unknown kinds and versions are refused with those that are known', () => {
    const { problems } = read(`
apiVersion: egressgateway.spidernet.io/v1alpha1
kind: EgressPolicys
metadata: {name: a}
`);
    assert.deepEqual(problems, [
      'error kind: unknown kind "EgressPolicys"; did you mean EgressPolicy?',
      'error apiVersion: must be egressgateway.spidernet.io/v1beta1 or egressgateway.spidernet.io/v1, not "egressgateway.spidernet.io/v1alpha1"',
    ]);
  });

  it('are read only where egress gateways are, and the configuration lists their group', () => {
    const raw = {
      apiVersion: 'egressgateway.spidernet.io/v1beta1',
      kind: 'EgressClusterInfo',
      metadata: { name: 'default' },
    };
    assert.equal(validateObject(raw, { egress: true }).object?.kind, 'EgressClusterInfo');
    assert.deepEqual(validateObject(raw), { object: null, problems: [] });
    const { object, problems } = validateObject(raw, {
      egress: true,
      egressConfig: { ...DEFAULT_EGRESS_CONFIG, read: [] },
    });
    assert.equal(object, null);
    assert.match(problems.map(({ message }) => message).join(), /^is not read: egress\.read/);
  });

  it('nothing that is no object makes it fail', () => {
    for (const raw of ['{}', '{kind: EgressGateway, apiVersion: 3}', '{kind: 7}']) {
      assert.equal(read(raw).object, null);
    }
    for (const kind of ['EgressGateway', 'EgressPolicy', 'EgressClusterPolicy', 'EgressClusterInfo']) {
      for (const rest of ['', 'spec: 3', 'spec: []', 'metadata: 3\nspec: {}', 'spec: {appliedTo: 3}']) {
        const { object, problems } = read(
          `apiVersion: egressgateway.spidernet.io/v1beta1\nkind: ${kind}\n${rest}`,
        );
        assert.equal(object, null);
        assert.ok(problems.length > 0);
      }
    }
  });
});
