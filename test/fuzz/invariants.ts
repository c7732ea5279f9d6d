import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { covers, parseCidr } from '../../apis/address.ts';
import type {
  AppliedTo,
  ClusterNetworkPolicy,
  ClusterObjects,
  LabelSelector,
  NetworkPolicyPeer,
  NetworkPolicyPort,
  NetworkPolicyProtocol,
  Rule,
} from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/identity.ts';

/** What later stages take for granted of everything that stage 1 hands them. */
export function checkInvariants(objects: ClusterObjects): void {
  const all = [objects.nodes, objects.namespaces, objects.pods, objects.tiers, objects.policies].flat();
  assert.equal(new Set(all.map(identityOf)).size, all.length, 'identities are unique');
  for (const { name } of all) assert.match(name, /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
  for (const object of [...objects.nodes, ...objects.namespaces, ...objects.pods]) {
    for (const value of Object.values(object.labels)) assert.equal(typeof value, 'string');
    if ('addresses' in object) for (const address of object.addresses) assert.ok(isIP(address) > 0, address);
  }
  for (const { priority } of objects.tiers)
    assert.ok(Number.isInteger(priority) && inRange(priority, 1, 253));
  for (const policy of objects.policies) checkPolicy(policy);
}

function checkPolicy({ spec }: ClusterNetworkPolicy): void {
  const { ingress = [], egress = [] } = spec;
  const rules = [...ingress, ...egress];
  assert.ok(inRange(spec.priority, 1, 10000));
  assert.ok(spec.tier !== '' && spec.mode === undefined && spec.traffic === undefined);
  const inRules = rules.filter(({ appliedTo }) => appliedTo !== undefined).length;
  assert.ok(spec.appliedTo === undefined ? inRules === rules.length && inRules > 0 : inRules === 0);
  spec.appliedTo?.forEach(checkAppliedTo);
  const names = rules.flatMap(({ name }) => name ?? []);
  assert.equal(new Set(names).size, names.length, 'rule names are unique');
  for (const rule of ingress) assert.equal(rule.to, undefined);
  for (const rule of egress) assert.equal(rule.from, undefined);
  rules.forEach(checkRule);
}

function checkRule(rule: Rule): void {
  const { name, action, from, to, ports, protocols, appliedTo } = rule;
  assert.ok(['Allow', 'Drop', 'Reject'].includes(action));
  if (name !== undefined) assert.match(name, /^[^\p{Cc}]{1,253}$/u);
  for (const list of [from, to, ports, protocols, appliedTo]) assert.notEqual(list?.length, 0);
  const known = ['name', 'action', 'from', 'to', 'ports', 'protocols', 'appliedTo'];
  for (const field of Object.keys(rule)) assert.ok(known.includes(field), field);
  [...(from ?? []), ...(to ?? [])].forEach(checkPeer);
  ports?.forEach(checkPort);
  protocols?.forEach(checkProtocol);
  appliedTo?.forEach(checkAppliedTo);
}

function checkAppliedTo(item: AppliedTo): void {
  assert.deepEqual(Object.keys(item), ['nodeSelector']);
  checkSelector(item.nodeSelector);
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
  ];
  assert.ok(known.includes(kinds), kinds);
  for (const selector of [peer.nodeSelector, peer.podSelector, peer.namespaceSelector]) {
    if (selector !== undefined) checkSelector(selector);
  }
  const cidr = parseCidr(peer.ipBlock?.cidr ?? '::/0');
  assert.ok(cidr !== null && !cidr.hostBits);
  for (const text of peer.ipBlock?.except ?? []) {
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
