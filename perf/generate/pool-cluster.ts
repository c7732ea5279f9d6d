import {
  type ClusterNetworkPolicy,
  type ClusterObject,
  type ClusterObjects,
  type LabelSelector,
  NO_OBJECTS,
  type Rule,
} from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import type { DifferenceInput } from '../measure/difference.ts';
import { controlPlane } from './control-plane.ts';

/** Policies for all nodes and for pools: at most as many groups of nodes as pools. */
export function poolCluster({
  nodes,
  pods,
  policies,
  rulesAPolicy,
}: Omit<DifferenceInput, 'change'>): ClusterObjects {
  const shape = {
    nodes,
    pods,
    policies: 2 * policies,
    rulesAPolicy,
    namespaces: 1000,
    shape: 'mixed',
  } as const;
  const all: ClusterObject[] = [];
  // One by one: all manifests at once take more memory than what is measured.
  for (const raw of controlPlane(shape)) {
    const { object } = validateObject(raw);
    if (object !== null) all.push(object);
  }
  const ofKind = <K extends ClusterObject['kind']>(kind: K) =>
    all.filter((one): one is Extract<ClusterObject, { kind: K }> => one.kind === kind);
  return {
    ...NO_OBJECTS,
    nodes: ofKind('Node'),
    namespaces: ofKind('Namespace'),
    pods: ofKind('Pod'),
    policies: ofKind('ClusterNetworkPolicy').filter(isOfPools).slice(0, policies),
  };
}

function isOfPools({ spec: { appliedTo = [] } }: ClusterNetworkPolicy): boolean {
  const isPool = (selector: LabelSelector | undefined): boolean =>
    selector !== undefined &&
    (selector.matchExpressions ?? []).length === 0 &&
    Object.keys(selector.matchLabels ?? {}).every((label) => label === 'pool');
  return appliedTo.length > 0 && appliedTo.every(({ nodeSelector }) => isPool(nodeSelector));
}

/** The policies with a change. */
export function changedPolicies(
  all: readonly ClusterNetworkPolicy[],
  change: DifferenceInput['change'],
): ClusterNetworkPolicy[] {
  const [first, ...others] = all;
  if (first === undefined) return [];
  switch (change) {
    case 'rule':
      return [
        withIngress(first, (rules) => rules.map((rule, i) => (i === 0 ? flipped(rule) : rule))),
        ...others,
      ];
    case 'deny':
      return [withIngress(first, (rules) => [...rules, { name: 'deny', action: 'Drop' }]), ...others];
    case 'all':
      return all.map((policy) => withIngress(policy, (rules) => rules.map(flipped)));
  }
}

function withIngress(
  policy: ClusterNetworkPolicy,
  change: (rules: readonly Rule[]) => readonly Rule[],
): ClusterNetworkPolicy {
  return { ...policy, spec: { ...policy.spec, ingress: change(policy.spec.ingress ?? []) } };
}

function flipped(rule: Rule): Rule {
  return { ...rule, action: rule.action === 'Allow' ? 'Drop' : 'Allow' };
}
