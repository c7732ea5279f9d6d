/** The difference of two clusters, one change a run, with the memory of the process. */

import { DEFAULT_CONFIG } from '../../apis/config.ts';
import {
  type ClusterNetworkPolicy,
  type ClusterObject,
  type ClusterObjects,
  type LabelSelector,
  NO_OBJECTS,
  type Rule,
} from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterDifference } from '../../controller/difference/cluster-difference.ts';
import { controlPlane } from '../generate/control-plane.ts';
import type { DifferenceInput } from '../measure/difference.ts';
import { answer, timed, trialInput } from './trial.ts';

const { nodes, pods, policies, rulesAPolicy, change } = trialInput<DifferenceInput>();
const objects = cluster();
const before = compile(objects);
const after = compile({ ...objects, policies: changed(objects.policies) });
const started = process.memoryUsage.rss();
const { result, milliseconds, cpu } = await timed(() =>
  clusterDifference(before, after, { config: DEFAULT_CONFIG }),
);
answer({
  milliseconds,
  cpu,
  groups: result.groups.length,
  rows: result.groups.reduce((sum, { changes }) => sum + changes.length, 0),
  nodes: result.groups.reduce((sum, { nodes: members }) => sum + members.length, 0),
  before: started / 1e6,
});

/** Policies for all nodes and for pools: at most as many groups of nodes as pools. */
function cluster(): ClusterObjects {
  const shape = {
    nodes,
    pods,
    policies: 2 * policies,
    rulesAPolicy,
    namespaces: 1000,
    shape: 'mixed',
  } as const;
  const all = [...controlPlane(shape)].flatMap((raw) => validateObject(raw).object ?? []);
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

function changed(all: readonly ClusterNetworkPolicy[]): ClusterNetworkPolicy[] {
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
