import type { ClusterObjects, LabelSelector } from '../../apis/objects.ts';
import { comparePlace, type Place } from '../../apis/order.ts';
import { addToList } from '../../lib/sharing/list-map.ts';
import { placeOfPolicy } from '../compile/tiers.ts';
import type { AdviceCollector } from './advice-collector.ts';
import { type Gap, gapsOf, type Unheard } from './gaps.ts';
import { listed } from './listed.ts';
import type { Tally } from './node-class.ts';
import type { PodShape } from './pod-shape.ts';
import { compareItems, type ReviewItem, reviewItems } from './review-list.ts';
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

export interface AdvisedRole {
  readonly name: string;
  /** Sorted. */
  readonly nodes: readonly string[];
  readonly selector: LabelSelector | null;
  /** Whether the selector lists names, because no label tells these nodes apart. */
  readonly isByName: boolean;
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
  const roles = toRoles(collector.classes, objects.nodes);
  const podsByNamespace = new Map<string, PodShape[]>();
  for (const shape of collector.owners.shapes.values()) addToList(podsByNamespace, shape.namespace, shape);
  const scanning = addressesOf(roles, scanners);
  const surroundings = { roles, podsByNamespace, scanners, scanning };
  const review: ReviewItem[] = [];
  const advised = roles.map((role): AdvisedRole => {
    const { policies, odd } = rolePolicies(role, surroundings, options);
    const isWanted = ({ direction }: { readonly direction: 'ingress' | 'egress' }): boolean =>
      options.directions.includes(direction);
    const asides = [...role.seen.asides.values()].filter(isWanted);
    review.push(...reviewItems(role.name, { odd, asides, scanners }));
    const { name, nodes, selector, isByName } = role;
    return {
      name,
      nodes,
      selector,
      isByName,
      serves: [...role.seen.served].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })),
      // Without a selector there is no way to apply it.
      policies: selector === null ? [] : policies,
      guaranteed: [...role.seen.guaranteed]
        .map(([by, tally]) => ({ by, ...tally }))
        .sort((a, b) => (a.by < b.by ? -1 : 1)),
      remarks: remarksOf(role, policies, objects, options),
    };
  });
  return {
    roles: advised,
    review: review.sort(compareItems),
    reviewLeftOut: roles.reduce((sum, { seen }) => sum + seen.asidesLeftOut, 0),
    gaps: gapsOf(collector.windows, options.unheard, options.now),
  };
}

function addressesOf(roles: readonly Role[], scanners: ReadonlySet<string>) {
  const found = new Map(
    roles.flatMap(({ seen: { services, asides } }) =>
      [...[...services.values()].flatMap(({ owners }) => [...owners]), ...asides.values()].flatMap(
        ({ owner }) =>
          owner.kind === 'address' && scanners.has(owner.key) ? [[owner.key, owner.address] as const] : [],
      ),
    ),
  );
  return [...found.values()];
}

const SSH = 22;

function remarksOf(
  role: Role,
  policies: readonly AdvisedPolicy[],
  objects: ClusterObjects,
  { directions, tier, priority }: AdviseOptions,
): string[] {
  const { isByName, selector, unknownNodes, nodes } = role;
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
  const [host] = policies;
  if (directions.includes('ingress')) {
    if (host !== undefined && !allowsSsh(host))
      remarks.push(
        'SSH (tcp 22) is in no rule: it was not seen, or is on the review list, and will be closed',
      );
    if (policies.length === 1)
      remarks.push('no connection to a NodePort was seen: NodePorts stay as they are');
  }
  for (const { name } of policies) remarks.push(...placeRemarks(name, objects, { tier, priority }));
  return remarks;
}

function allowsSsh({ ingress }: AdvisedPolicy): boolean {
  return ingress.some(({ rule: { action, ports = [] } }) =>
    ports.some(({ protocol, port = 0, endPort = port }) => {
      return action === 'Allow' && protocol === 'TCP' && port <= SSH && SSH <= endPort;
    }),
  );
}

/** Remarks on policies that are there already. */
function placeRemarks(
  name: string,
  objects: ClusterObjects,
  { tier, priority }: Pick<PolicyOptions, 'tier' | 'priority'>,
): string[] {
  const own = {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name,
    uid: '',
    generation: 0,
  } as const;
  const place = placeOfPolicy({ ...own, spec: { tier, priority } }, objects);
  const isSame = (one: { readonly name: string; readonly apiGroup: string }): boolean =>
    one.name === name && one.apiGroup === own.apiGroup;
  const isBehind = (other: Place | null): boolean =>
    place !== null && other !== null && comparePlace(place, other) < 0;
  const behind = objects.policies.filter((one) => !isSame(one) && isBehind(placeOfPolicy(one, objects)));
  return [
    ...(objects.policies.some(isSame) ? [`policy ${name} exists: to apply this one replaces it`] : []),
    ...(behind.length === 0 || name.endsWith('-nodeports')
      ? []
      : [
          `evaluated before ${listed(behind.map((one) => one.name))}: once it is enforced, they decide nothing on these nodes`,
        ]),
  ];
}
