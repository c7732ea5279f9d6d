import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import type { EgressGateway, EgressObjects, EgressPolicy } from '../../apis/egress/objects.ts';
import { parsePoolRange } from '../../apis/validate/egress/addresses.ts';
import { canonicalCidr } from '../../apis/validate/ipblock.ts';
import { parseCidr } from '../../lib/net/address.ts';

/** What later stages take for granted of egress gateways and policies. */
export function checkEgressInvariants(objects: EgressObjects): void {
  const { egressGateways, egressPolicies, insideNetworks } = objects;
  for (const gateway of egressGateways) checkGateway(gateway);
  for (const policy of egressPolicies) checkPolicy(policy);
  for (const { cidrs } of insideNetworks) checkCidrs(cidrs);
}

function checkGateway({ apiGroup, spec, status }: EgressGateway): void {
  const { matchLabels = {}, matchExpressions = [] } = spec.nodeSelector;
  if (apiGroup === 'nodewall.io') {
    assert.ok(Object.keys(matchLabels).length + matchExpressions.length > 0, 'it selects not all nodes');
    assert.equal(spec.source === 'Node', spec.ranges.length === 0);
  }
  for (const range of spec.ranges) assert.equal(parsePoolRange(range)?.text, range);
  if (spec.choice === 'Spread') assert.equal(spec.source, 'Node');
  if (spec.interface !== undefined) assert.equal(spec.source, 'Node');
  for (const { address, port = 1, seconds, failures } of spec.probes) {
    assert.ok(isIP(address) > 0);
    for (const number of [port, seconds, failures]) assert.ok(Number.isInteger(number) && number > 0);
  }
  const { heartbeatMilliseconds, leaseSeconds } = spec.failover;
  assert.ok(leaseSeconds * 1000 >= 2 * heartbeatMilliseconds);
  const addresses = (status?.slots ?? []).flatMap((slot) => slot.addresses);
  assert.equal(new Set(addresses).size, addresses.length, 'an address is in one slot');
  for (const address of addresses) assert.ok(isIP(address) > 0);
}

function checkPolicy({ kind, apiGroup, namespace, spec, status }: EgressPolicy): void {
  assert.equal(kind === 'ClusterEgressPolicy', namespace === '');
  assert.equal(kind === 'EgressPolicy', spec.stage === 'Namespace');
  assert.ok(spec.appliedTo.length > 0);
  for (const item of spec.appliedTo) {
    const fields = Object.keys(item);
    assert.ok(fields.length > 0);
    assert.notEqual(item.podSubnets?.length, 0);
    checkCidrs(item.podSubnets ?? []);
    if (apiGroup !== 'nodewall.io') continue;
    if (kind === 'EgressPolicy') assert.deepEqual(fields, ['podSelector']);
    else
      assert.equal(
        'podSubnets' in item,
        fields.every((field) => field === 'podSubnets'),
      );
  }
  assert.notEqual(spec.gateway, '');
  assert.notEqual(spec.to?.length, 0);
  checkCidrs([...(spec.to ?? []), ...spec.except]);
  assert.ok(Number.isInteger(spec.priority));
  const { allocation, fixed, count } = spec.address;
  const given = Object.values(fixed);
  assert.equal(allocation === 'Fixed', given.length > 0);
  for (const address of [...given, ...(status?.addresses ?? [])]) assert.ok(isIP(address) > 0);
  assert.ok(count >= 1 && (count === 1 || allocation === 'Dedicated'));
}

function checkCidrs(cidrs: readonly string[]): void {
  for (const cidr of cidrs) {
    assert.equal(parseCidr(cidr)?.hostBits, false, cidr);
    assert.equal(canonicalCidr(cidr), cidr);
  }
}
