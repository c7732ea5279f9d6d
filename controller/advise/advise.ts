import type { ClusterNetworkPolicy, ClusterObjects } from '../../apis/objects.ts';
import { comparePlace } from '../../apis/order.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { placeOfPolicy } from '../compile/policy-rules.ts';
import type { AdviceCollector } from './advice-collector.ts';
import type { Tally } from './node-class.ts';
import {
  compareItems,
  type Gap,
  gapsOf,
  listed,
  type ReviewItem,
  reviewItems,
  type Unheard,
} from './review-list.ts';
import { type AdvisedPolicy, type PolicyOptions, rolePolicies } from './role-policies.ts';
import { type Role, toRoles } from './roles.ts';

/** Policies that allow what was seen, and what they do not say. */
export interface Advice {
  /** Sorted by name. */
  readonly roles: readonly AdvisedRole[];
  /** The kinds that are in no rule, by reason. */
  readonly review: readonly ReviewItem[];
  /** Flows that are not even on the review list, because there are too many. */
  readonly reviewLeftOut: number;
  readonly gaps: readonly Gap[];
}

export interface AdvisedRole extends Pick<Role, 'name' | 'nodes' | 'selector' | 'isByName'> {
  /** The services that they have, `tcp 22`. */
  readonly serves: readonly string[];
  readonly policies: readonly AdvisedPolicy[];
  /** Kinds that need no rule: by which exemption they are accepted, or by the failsafe list. */
  readonly guaranteed: readonly (Tally & { readonly by: string })[];
  /** Remarks on the role for a person. */
  readonly remarks: readonly string[];
}

export interface AdviseOptions extends PolicyOptions {
  readonly unheard: Unheard;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/**
 * Policies of least privilege from what nodes saw: for each role one that allows it and drops the
 * rest, as an audit. Pure. O(n log n) in what the collector has kept; the collector is used up.
 */
export function advise(collector: AdviceCollector, objects: ClusterObjects, options: AdviseOptions): Advice {
  const scanners = collector.scanners();
  const scanning = [...scanners].flatMap((key) => parseAddress(key) ?? []);
  const roles = toRoles(collector.classes, objects.nodes);
  const podsByNamespace = Map.groupBy(collector.owners.shapes.values(), ({ namespace }) => namespace);
  const review: ReviewItem[] = [];
  const advised = roles.map((role): AdvisedRole => {
    const { name, nodes, selector, isByName, seen } = role;
    const { policies, odd } = rolePolicies(role, { roles, podsByNamespace, scanners, scanning }, options);
    review.push(...reviewItems(name, odd, scanners));
    return {
      name,
      nodes,
      selector,
      isByName,
      serves: [...seen.served].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })),
      // Without a selector there is no way to apply it.
      policies: selector === null ? [] : policies,
      guaranteed: [...seen.guaranteed]
        .map(([by, tally]) => ({ by, ...tally }))
        .sort((a, b) => compareText(a.by, b.by)),
      remarks: [...roleRemarks(role), ...policyRemarks(policies, objects, options)],
    };
  });
  return {
    roles: advised,
    review: review.sort(compareItems),
    reviewLeftOut: roles.reduce((sum, { seen }) => sum + seen.leftOut, 0),
    gaps: gapsOf(collector.windows, options.unheard, options.now),
  };
}

function roleRemarks({ isByName, selector, unknownNodes, nodes }: Role): string[] {
  const remarks: string[] = [];
  if (selector === null)
    remarks.push(
      `no policy: no label selects ${listed(nodes)}; give these Nodes the label kubernetes.io/hostname`,
    );
  else if (isByName)
    remarks.push(
      'no label tells these nodes apart from others: they are selected by name, and a new node of this role is not',
    );
  if (unknownNodes.length > 0)
    remarks.push(`the selector also selects Nodes of which nothing is known: ${listed(unknownNodes)}`);
  return remarks;
}

const SSH = 22;

/** Remarks on what the policies close, and on policies that are there already. */
function policyRemarks(
  policies: readonly AdvisedPolicy[],
  objects: ClusterObjects,
  { directions }: AdviseOptions,
): string[] {
  const remarks: string[] = [];
  const allowsSsh = policies[0]?.ingress.some(({ rule: { action, ports = [] } }) =>
    ports.some(
      ({ protocol, port = 0, endPort = port }) =>
        action === 'Allow' && protocol === 'TCP' && port <= SSH && SSH <= endPort,
    ),
  );
  if (directions.includes('ingress')) {
    if (allowsSsh === false)
      remarks.push(
        'SSH (tcp 22) is in no rule: it was not seen, or is on the review list, and will be closed',
      );
    if (policies.length === 1)
      remarks.push('no connection to a NodePort was seen: NodePorts stay as they are');
  }
  for (const { name, spec } of policies) {
    const own = {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name,
      spec,
      uid: '',
      generation: 0,
    } as const;
    const isOwn = (one: ClusterNetworkPolicy) => one.name === name && one.apiGroup === own.apiGroup;
    const place = placeOfPolicy(own, objects);
    const behind = objects.policies.filter((one) => {
      const other = placeOfPolicy(one, objects);
      return !isOwn(one) && place !== null && other !== null && comparePlace(place, other) < 0;
    });
    if (objects.policies.some(isOwn)) remarks.push(`policy ${name} exists: to apply this one replaces it`);
    if (behind.length > 0 && spec.traffic !== 'NodePort')
      remarks.push(
        `evaluated before ${listed(behind.map((one) => one.name))}: once it is enforced, they decide nothing on these nodes`,
      );
  }
  return remarks;
}
