import type { Cluster } from './cluster.ts';
import { apiGroupOf, assertOnlyFields, findNamed, type GroupManifest, type Labels } from './manifest.ts';
import {
  type AddressTest,
  isSingle,
  selects,
  toBlockTest,
  toNodesTest,
  toPodsTest,
  toServicePodsTest,
} from './member.ts';

const kinds = [
  ['podSelector', 'namespaceSelector'],
  ['nodeSelector'],
  ['ipBlocks'],
  ['serviceReference'],
  ['childGroups'],
];

/**
 * The test for being an address of the group. The name is looked up in the API group of whoever
 * names it first.
 */
export function toGroupTest(
  objects: readonly object[],
  cluster: Cluster,
  name: string,
  apiGroup: string,
): AddressTest {
  const tests = withChildren(objects, name, apiGroup).map((group) => toOwnTest(group, cluster));
  return (address) => tests.some((test) => test(address));
}

/**
 * True when the group selects a Node with these labels. Throws on a group of anything but Nodes.
 */
export function groupSelectsNode(
  objects: readonly object[],
  name: string,
  apiGroup: string,
  labels: Labels,
): boolean {
  const selectors = withChildren(objects, name, apiGroup).map(({ spec }) => spec.nodeSelector);
  return selectors
    .map((selector) => {
      if (selector === undefined)
        throw new Error(`appliedTo names the group ${name}, which selects no Nodes`);
      return selects(selector, labels);
    })
    .includes(true);
}

/** Whether the group, or a child of it, is of pods or has a single address. */
export function groupNamesPods(objects: readonly object[], name: string, apiGroup: string): boolean {
  return withChildren(objects, name, apiGroup).some(({ spec }) => {
    const { podSelector, namespaceSelector, serviceReference, ipBlocks = [] } = spec;
    const ofPods = [podSelector, namespaceSelector, serviceReference].some((one) => one !== undefined);
    return ofPods || ipBlocks.some(isSingle);
  });
}

/** The group itself, or in its stead the groups it is made of. */
function withChildren(objects: readonly object[], name: string, apiGroup: string): GroupManifest[] {
  const group = findGroup(objects, name, apiGroup);
  if (group.spec.childGroups === undefined) return [group];
  // The child is named by the group, not by the policy: the group's own API group comes first.
  const children = group.spec.childGroups.map((child) =>
    findGroup(objects, child, apiGroupOf(group.apiVersion)),
  );
  if (children.some(({ spec }) => spec.childGroups !== undefined)) {
    throw new Error(`the group ${name} nests groups more than one level deep`);
  }
  return children;
}

function findGroup(objects: readonly object[], name: string, apiGroup: string): GroupManifest {
  const group = findNamed(objects, 'ClusterGroup', name, apiGroup) as GroupManifest | undefined;
  if (group === undefined) throw new Error(`no ClusterGroup is named ${name}`);
  assertOnlyFields(group.spec, kinds.flat(), `${name}: spec`);
  const given = kinds.filter((fields) => fields.some((field) => Object.hasOwn(group.spec, field)));
  if (given.length !== 1) throw new Error(`the group ${name} is of ${given.length} kinds`);
  return group;
}

function toOwnTest({ spec }: GroupManifest, cluster: Cluster): AddressTest {
  const { podSelector, namespaceSelector, nodeSelector, ipBlocks, serviceReference } = spec;
  if (nodeSelector !== undefined) return toNodesTest(cluster, nodeSelector);
  if (serviceReference !== undefined) return toServicePodsTest(cluster, serviceReference);
  if (ipBlocks !== undefined) {
    const tests = ipBlocks.map(toBlockTest);
    return (address) => tests.some((test) => test(address));
  }
  return toPodsTest(cluster, podSelector, namespaceSelector);
}
