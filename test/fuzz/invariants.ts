import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import type { EgressGateway, EgressObjects, EgressPolicy } from '../../apis/egress/objects.ts';
import type {
  ApiGroup,
  AppliedTo,
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterObject,
  ClusterObjects,
  IPBlock,
  LabelSelector,
  Labels,
  NetworkPolicyPeer,
  NetworkPolicyPort,
  NetworkPolicyProtocol,
  Rule,
} from '../../apis/objects.ts';
import { canonicalCidr } from '../../apis/validate/ipblock.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { covers, parseCidr } from '../../lib/net/address.ts';
import { parsePoolRange } from '../../lib/net/interval.ts';

/** What later stages take for granted of everything that stage 1 hands them. */
export function checkInvariants(objects: ClusterObjects): void {
  const all: readonly ClusterObject[] = Object.values<readonly ClusterObject[]>({ ...objects }).flat();
  assert.equal(new Set(all.map(identityOf)).size, all.length, 'identities are unique');
  for (const { name } of all) assert.match(name, /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
  for (const object of all) {
    if ('labels' in object) checkLabels(object.labels);
    if ('addresses' in object) for (const address of object.addresses) assert.ok(isIP(address) > 0, address);
    if ('ports' in object) for (const { port } of object.ports) assert.ok(inRange(port, 1, 65535));
  }
  for (const { clusterIPs, selector } of objects.services) {
    for (const address of clusterIPs) assert.ok(isIP(address) > 0, address);
    if (selector !== null) checkLabels(selector);
  }
  for (const { service } of objects.endpointSlices) assert.notEqual(service, '');
  for (const group of objects.groups) checkGroup(group, objects);
  for (const { priority } of objects.tiers)
    assert.ok(Number.isInteger(priority) && inRange(priority, 1, 253));
  for (const policy of objects.policies) checkPolicy(policy, objects);
}

function checkLabels(labels: Labels): void {
  for (const value of Object.values(labels)) assert.equal(typeof value, 'string');
}

/** Found by whoever looks: the group of the same API group first. */
function groupOf(objects: ClusterObjects, apiGroup: ApiGroup, name: string): ClusterGroup {
  const named = objects.groups.filter((group) => group.name === name);
  const found = named.find((group) => group.apiGroup === apiGroup) ?? named[0];
  assert.ok(found !== undefined, `there is a group ${name}`);
  return found;
}

function childrenOf(objects: ClusterObjects, { apiGroup, spec }: ClusterGroup): ClusterGroup[] {
  return (spec.childGroups ?? []).map((name) => groupOf(objects, apiGroup, name));
}

function checkGroup(group: ClusterGroup, objects: ClusterObjects): void {
  const { podSelector, namespaceSelector, nodeSelector, ipBlocks, childGroups } = group.spec;
  const kinds = Object.keys(group.spec).sort().join();
  assert.ok([...SINGLE_KINDS, 'namespaceSelector,podSelector'].includes(kinds), kinds);
  for (const selector of [podSelector, namespaceSelector, nodeSelector]) {
    if (selector !== undefined) checkSelector(selector);
  }
  for (const list of [ipBlocks, childGroups]) assert.notEqual(list?.length, 0);
  ipBlocks?.forEach(checkIpBlock);
  for (const child of childrenOf(objects, group)) assert.equal(child.spec.childGroups, undefined);
}

const SINGLE_KINDS = [
  ...['podSelector', 'namespaceSelector', 'nodeSelector', 'ipBlocks', 'serviceReference', 'childGroups'],
];

function checkPolicy({ spec, apiGroup }: ClusterNetworkPolicy, objects: ClusterObjects): void {
  const { ingress = [], egress = [] } = spec;
  const rules = [...ingress, ...egress];
  assert.ok(inRange(spec.priority, 1, 10000));
  assert.ok(spec.tier !== '' && spec.mode !== 'Enforce' && spec.traffic !== 'Host');
  if (apiGroup === 'crd.antrea.io') assert.equal(spec.mode ?? spec.traffic, undefined);
  if (spec.traffic === 'NodePort') assert.deepEqual(egress, []);
  if (/^baseline$/i.test(spec.tier ?? '')) for (const { action } of rules) assert.notEqual(action, 'Pass');
  const inRules = rules.filter(({ appliedTo }) => appliedTo !== undefined).length;
  assert.ok(spec.appliedTo === undefined ? inRules === rules.length && inRules > 0 : inRules === 0);
  const targets = [spec, ...rules].flatMap(({ appliedTo = [] }) => appliedTo);
  for (const target of targets) checkAppliedTo(target, apiGroup, objects);
  const names = rules.flatMap(({ name }) => name ?? []);
  assert.equal(new Set(names).size, names.length, 'rule names are unique');
  for (const rule of ingress) {
    assert.equal(rule.to ?? rule.toServices, undefined);
    for (const peer of rule.from ?? []) assert.ok(!('fqdn' in peer));
  }
  for (const rule of egress) assert.equal(rule.from, undefined);
  rules.forEach(checkRule);
  for (const peer of rules.flatMap(({ from, to }) => from ?? to ?? [])) {
    if ('group' in peer) groupOf(objects, apiGroup, peer.group);
    if (!('interfaceGroup' in peer)) continue;
    const { interfaceGroup } = peer;
    if (typeof interfaceGroup === 'string') assert.ok(['pods', 'clusternet'].includes(interfaceGroup));
    assert.notEqual(apiGroup, 'crd.antrea.io');
  }
}

function checkRule(rule: Rule): void {
  const { name, action, from, to, toServices, ports, protocols, appliedTo, logLabel } = rule;
  assert.ok(['Allow', 'Drop', 'Reject', 'Pass'].includes(action));
  if (name !== undefined) assert.match(name, /^[^\p{Cc}]{1,253}$/u);
  if (logLabel !== undefined) assert.match(logLabel, /^[\w.-]{1,63}$/);
  if (toServices !== undefined) assert.equal(to ?? ports ?? protocols, undefined);
  for (const list of [from, to, toServices, ports, protocols, appliedTo]) assert.notEqual(list?.length, 0);
  const known = [
    ...['name', 'action', 'from', 'to', 'toServices', 'ports', 'protocols'],
    ...['enableLogging', 'logLabel', 'appliedTo'],
  ];
  for (const field of Object.keys(rule)) assert.ok(known.includes(field), field);
  [...(from ?? []), ...(to ?? [])].forEach(checkPeer);
  ports?.forEach(checkPort);
  protocols?.forEach(checkProtocol);
}

function checkAppliedTo(item: AppliedTo, apiGroup: ApiGroup, objects: ClusterObjects): void {
  assert.equal(Object.keys(item).length, 1);
  if (item.group === undefined) {
    assert.ok(item.nodeSelector !== undefined);
    checkSelector(item.nodeSelector);
    return;
  }
  const group = groupOf(objects, apiGroup, item.group);
  const members = group.spec.childGroups === undefined ? [group] : childrenOf(objects, group);
  for (const { spec } of members) assert.notEqual(spec.nodeSelector, undefined);
}

function checkPeer(peer: NetworkPolicyPeer): void {
  const kinds = Object.keys(peer).sort().join();
  const known = [
    'ipBlock',
    'nodeSelector',
    'podSelector',
    'namespaceSelector',
    'serviceAccount',
    'namespaceSelector,podSelector',
    'group',
    'fqdn',
    'interfaceGroup',
  ];
  assert.ok(known.includes(kinds), kinds);
  if ('nodeSelector' in peer) checkSelector(peer.nodeSelector);
  if ('podSelector' in peer && peer.podSelector !== undefined) checkSelector(peer.podSelector);
  if ('namespaceSelector' in peer && peer.namespaceSelector !== undefined) {
    checkSelector(peer.namespaceSelector);
  }
  if ('fqdn' in peer) assert.match(peer.fqdn, /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/);
  const number = 'interfaceGroup' in peer ? peer.interfaceGroup : 0;
  if (typeof number === 'number') assert.ok(Number.isInteger(number) && inRange(number, 0, 0xffff_ffff));
  if ('ipBlock' in peer) checkIpBlock(peer.ipBlock);
}

function checkIpBlock({ cidr: outer, except = [] }: IPBlock): void {
  const cidr = parseCidr(outer);
  assert.ok(cidr !== null && !cidr.hostBits);
  for (const text of except) {
    const hole = parseCidr(text);
    assert.ok(hole !== null && !hole.hostBits && covers(cidr.cidr, hole.cidr));
    assert.ok(hole.cidr.length > cidr.cidr.length);
  }
}

function checkSelector({ matchLabels = {}, matchExpressions = [] }: LabelSelector): void {
  for (const value of Object.values(matchLabels)) assert.equal(typeof value, 'string');
  for (const { operator, values = [] } of matchExpressions) {
    assert.equal(values.length > 0, operator === 'In' || operator === 'NotIn');
  }
}

function checkPort({ port, endPort, sourcePort, sourceEndPort }: NetworkPolicyPort): void {
  for (const number of [port, endPort, sourcePort, sourceEndPort]) {
    if (number !== undefined) assert.ok(Number.isInteger(number) && inRange(number, 1, 65535));
  }
  if (endPort !== undefined) assert.ok(port !== undefined && port <= endPort);
  if (sourceEndPort !== undefined) assert.ok(sourcePort !== undefined && sourcePort <= sourceEndPort);
}

function checkProtocol(protocol: NetworkPolicyProtocol): void {
  assert.equal(Object.keys(protocol).length, 1);
  const { icmpType, icmpCode } = protocol.icmp ?? protocol.icmpv6 ?? {};
  if (icmpCode !== undefined) assert.notEqual(icmpType, undefined);
}

function inRange(value: number, least: number, most: number): boolean {
  return value >= least && value <= most;
}

/** What later stages take for granted of egress gateways and policies. */
export function checkEgressInvariants(objects: EgressObjects): void {
  const { egressGateways, egressPolicies, insideNetworks } = objects;
  for (const gateway of egressGateways) checkGateway(gateway);
  for (const policy of egressPolicies) checkEgressPolicy(policy);
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

function checkEgressPolicy({ kind, apiGroup, namespace, spec, status }: EgressPolicy): void {
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
