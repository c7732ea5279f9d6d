import fc from 'fast-check';
import type { GroupManifest } from '../oracle/manifest.ts';
import { policyApiVersions } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import { ipBlock, toPool } from './address.ts';
import { oneOf, weighted } from './choice.ts';
import { serviceReference } from './endpoint.ts';
import { namespaceSelectors, nodeLabels, podLabels, selectorOver } from './selector.ts';

type GroupSpec = GroupManifest['spec'];

/**
 * A name says what its groups are of, in both API groups, so that every lookup finds a valid one.
 */
const names = {
  nodes: ['edge-nodes', 'node-set'],
  any: ['backends', 'friends', 'net', 'partners'],
  unionOfNodes: ['all-nodes'],
  unionOfAny: ['mixture', 'union'],
};

/**
 * ClusterGroups of both API groups and every kind, often of the same name; at least one selects
 * Nodes.
 */
export function groups(plan?: AddressPlan): fc.Arbitrary<GroupManifest[]> {
  const nodes = list(names.nodes, fc.record({ nodeSelector: selectorOver(nodeLabels) }), 1);
  const any = list(names.any, weighted(...memberKinds(plan)), 1);
  return fc.tuple(nodes, any).chain(([ofNodes, ofAny]) => {
    const flat = [...ofNodes, ...ofAny];
    return fc
      .tuple(list(names.unionOfNodes, union(ofNodes), 0), list(names.unionOfAny, union(flat), 1))
      .map((unions) => [...flat, ...unions.flat()]);
  });
}

/** Names of groups that appliedTo may say. */
export function nodeGroupNames(all: GroupManifest[]): string[] {
  return namesOf(all).filter((name) => [...names.nodes, ...names.unionOfNodes].includes(name));
}

/** Every name, once for each group that has it. */
export function namesOf(all: GroupManifest[]): string[] {
  return all.map(({ metadata }) => metadata.name);
}

function list(
  from: string[],
  specs: fc.Arbitrary<GroupSpec>,
  minLength: number,
): fc.Arbitrary<GroupManifest[]> {
  const group = fc
    .record({ apiVersion: oneOf(policyApiVersions), name: oneOf(from), spec: specs })
    .map(({ name, ...rest }) => ({ kind: 'ClusterGroup', metadata: { name }, ...rest }));
  return fc.uniqueArray(group, {
    minLength,
    maxLength: from.length + 1,
    selector: ({ apiVersion, metadata }) => `${apiVersion} ${metadata.name}`,
  });
}

/** Each kind of members but childGroups, with its weight. */
export function memberKinds(plan?: AddressPlan): [weight: number, spec: fc.Arbitrary<GroupSpec>][] {
  const podSelector = selectorOver(podLabels);
  const namespaceSelector = namespaceSelectors();
  const ipBlocks = fc.array(ipBlock(toPool(plan)), { minLength: 1, maxLength: 3 });
  return [
    [2, fc.record({ podSelector })],
    [1, fc.record({ namespaceSelector })],
    [1, fc.record({ podSelector, namespaceSelector })],
    [1, fc.record({ nodeSelector: selectorOver(nodeLabels) })],
    [4, fc.record({ ipBlocks })],
    [4, fc.record({ serviceReference: serviceReference() })],
  ];
}

/** childGroups, of groups that have none. */
export function union(children: GroupManifest[]): fc.Arbitrary<GroupSpec> {
  return fc.record({ childGroups: fc.uniqueArray(oneOf(namesOf(children)), { minLength: 1, maxLength: 3 }) });
}
