import assert from 'node:assert/strict';
import { parseAllDocuments } from 'yaml';
import type { FieldMap } from '../../schema/json-schema.ts';
import { findings } from '../../validate/problem.ts';
import type { EgressGateway, EgressPolicy } from '../objects.ts';
import { completeSpidernet } from './complete.ts';
import { validateSpidernet } from './object.ts';

function read(text: string) {
  const objects = parseAllDocuments(text).map((document) =>
    validateSpidernet(document.toJS() as FieldMap, findings()),
  );
  return {
    egressGateways: objects.filter((one): one is EgressGateway => one?.kind === 'EgressGateway'),
    egressPolicies: objects.filter((one): one is EgressPolicy => one !== null && 'namespace' in one),
  };
}

const V1 = `
apiVersion: egressgateway.spidernet.io/v1
kind: EgressGateway
metadata: {name: only}
spec: {nodeSelector: {matchLabels: {role: edge}}}
---
apiVersion: egressgateway.spidernet.io/v1
kind: EgressGatewayPolicy
metadata: {name: a}
spec:
  appliedTo: {podSelector: {matchLabels: {app: a}}}
  destSubnet: [203.0.113.0/24]
---
apiVersion: egressgateway.spidernet.io/v1
kind: EgressGatewayPolicy
metadata: {name: b}
spec:
  appliedTo: {podSelector: {matchLabels: {app: b}}}
  destSubnet: [203.0.113.0/24]`;

describe('objects of egressgateway.spidernet.io, completed by each other', () => {
  it('the gateway of v1 gives the addresses that policies demand, and else its node’s', () => {
    const before = read(
      `${V1}\n  gatewayNodeConfig: {egressIPv4VIP: 198.51.100.8, egressIPv6VIP: "2001:db8::8"}`,
    );
    const { egressGateways, egressPolicies } = completeSpidernet(before);
    assert.deepEqual(egressGateways[0]?.spec.ranges, ['198.51.100.8', '2001:db8::8']);
    assert.equal(egressGateways[0]?.spec.source, 'Floating');
    assert.deepEqual(
      egressPolicies.map(({ spec }) => spec.address.allocation),
      ['Node', 'Fixed'],
    );
  });

  it('the gateway of v1 is the default where it is the only one', () => {
    const before = read(V1);
    const { egressGateways, egressPolicies } = completeSpidernet(before);
    assert.deepEqual(
      egressGateways.map(({ spec }) => [spec.default, spec.source]),
      [[true, 'Node']],
    );
    assert.equal(egressPolicies, before.egressPolicies);
    const two = { ...before, egressGateways: [...before.egressGateways, ...before.egressGateways] };
    assert.equal(completeSpidernet(two).egressGateways, two.egressGateways);
  });

  it('a policy without a status has the addresses of its gateway’s', () => {
    const policy = (name: string, more: string) => `
---
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressPolicy
metadata: {name: ${name}, namespace: shop}
spec: {appliedTo: {podSelector: {matchLabels: {app: a}}}, egressGatewayName: ${more}`;
    const { egressPolicies } = completeSpidernet(
      read(`
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: edge}
spec:
  ippools: {ipv4: ["198.51.100.8-198.51.100.9"]}
  nodeSelector: {selector: {matchLabels: {role: edge}}}
status:
  nodeList:
    - name: edge-1
      eips:
        - {ipv4: 198.51.100.9, policies: [{name: a, namespace: shop}, {name: b, namespace: shop}, old]}
        - {policies: [{name: c, namespace: shop}]}
    - {name: edge-2, eips: [{ipv4: 198.51.100.8, policies: [{name: d, namespace: shop}]}]}${policy('a', 'edge}')}${policy('b', 'edge}\nstatus: {eip: {ipv4: 198.51.100.8}}')}${policy('c', 'edge}')}${policy('d', 'other}')}${policy('e', 'edge}')}`),
    );
    assert.deepEqual(
      egressPolicies.map(({ name, status }) => [name, status?.addresses.join() ?? null]),
      [
        ['a', '198.51.100.9'],
        ['b', '198.51.100.8'],
        ['c', null],
        ['d', null],
        ['e', null],
      ],
    );
  });
});
