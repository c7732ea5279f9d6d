import { type Address, addressKey, inRange, parseCidr } from './address.ts';
import type { Cluster, ClusterPod } from './cluster.ts';
import {
  assertOnlyFields,
  type IPBlock,
  type LabelSelector,
  type Labels,
  type ServiceReference,
} from './manifest.ts';

/** Answers whether an address is one of those that something stands for. */
export type AddressTest = (address: Address) => boolean;

/** The CIDR less its exceptions. */
export function toBlockTest(ipBlock: IPBlock): AddressTest {
  assertOnlyFields(ipBlock, ['cidr', 'except'], 'ipBlock');
  const block = parseCidr(ipBlock.cidr);
  const exceptions = (ipBlock.except ?? []).map(parseCidr);
  return (address) => inRange(block, address) && !exceptions.some((range) => inRange(range, address));
}

/** Whether the block is one address, as it is written. */
export function isSingle({ cidr }: IPBlock): boolean {
  return cidr.endsWith(cidr.includes(':') ? '/128' : '/32');
}

/** The addresses of the Nodes that the selector selects. */
export function toNodesTest(cluster: Cluster, selector: LabelSelector): AddressTest {
  return toMembersTest(cluster.nodes.filter((node) => selects(selector, node.labels)));
}

/**
 * The pods of the namespaces; of all namespaces without a namespaceSelector, all pods without a
 * podSelector.
 */
export function toPodsTest(
  cluster: Cluster,
  podSelector: LabelSelector = {},
  namespaceSelector: LabelSelector = {},
): AddressTest {
  const isSelected = (pod: ClusterPod) =>
    selects(podSelector, pod.labels) && selects(namespaceSelector, pod.namespaceLabels);
  return toMembersTest(cluster.pods.filter(isSelected));
}

/** The pods of the service account. */
export function toAccountTest(cluster: Cluster, account: { name: string; namespace: string }): AddressTest {
  const { name, namespace } = account;
  return toMembersTest(
    cluster.pods.filter((pod) => pod.serviceAccount === name && pod.namespace === namespace),
  );
}

/**
 * The pods that the Service's selector selects; none for an unknown Service or one without a
 * selector.
 */
export function toServicePodsTest(cluster: Cluster, { name, namespace }: ServiceReference): AddressTest {
  const service = cluster.services.find((one) => one.name === name && one.namespace === namespace);
  const matchLabels = service?.selector ?? {};
  // Kubernetes: a Service that has no selector selects no pod, unlike an empty LabelSelector.
  if (Object.keys(matchLabels).length === 0) return () => false;
  const isSelected = (pod: ClusterPod) => pod.namespace === namespace && selects({ matchLabels }, pod.labels);
  return toMembersTest(cluster.pods.filter(isSelected));
}

/** Being one of the addresses. */
export function toListTest(addresses: Address[]): AddressTest {
  const keys = new Set(addresses.map(addressKey));
  return (address) => keys.has(addressKey(address));
}

function toMembersTest(members: { addresses: Address[] }[]): AddressTest {
  return toListTest(members.flatMap(({ addresses }) => addresses));
}

/**
 * True when the labels satisfy every requirement of the selector; an empty selector selects
 * everything.
 */
export function selects(selector: LabelSelector, labels: Labels): boolean {
  assertOnlyFields(selector, ['matchLabels', 'matchExpressions'], 'selector');
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) {
    if (!Object.hasOwn(labels, key) || labels[key] !== value) return false;
  }
  for (const { key, operator, values } of selector.matchExpressions ?? []) {
    const has = Object.hasOwn(labels, key);
    const isListed = has && (values ?? []).includes(labels[key] ?? '');
    if (!satisfies(operator, has, isListed)) return false;
  }
  return true;
}

function satisfies(operator: string, has: boolean, isListed: boolean): boolean {
  switch (operator) {
    case 'In':
      return isListed;
    case 'NotIn':
      return !isListed; // Kubernetes: a missing key satisfies NotIn
    case 'Exists':
      return has;
    case 'DoesNotExist':
      return !has;
    default:
      throw new Error(`the oracle does not evaluate the operator ${operator}`);
  }
}
