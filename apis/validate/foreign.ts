import { API_VERSIONS, type ApiGroup } from '../objects.ts';
import { nearest } from './nearest.ts';
import { type Findings, show } from './problem.ts';

/** That `nodewall migrate` translates. */
const MIGRATED_GROUP = 'egressgateway.spidernet.io';

const CALICO = [
  ...['GlobalNetworkPolicy', 'NetworkPolicy', 'StagedGlobalNetworkPolicy', 'StagedNetworkPolicy'],
  ...['GlobalNetworkSet', 'NetworkSet', 'HostEndpoint'],
];

/**
 * Kinds of other firewalls, by API group: an administrator whose rules these are must not take them
 * for rules of nodewall. Those that only configure another program are not here.
 */
const FOREIGN_KINDS: Readonly<Record<string, readonly string[]>> = {
  'policy.networking.k8s.io': ['ClusterNetworkPolicy', 'AdminNetworkPolicy', 'BaselineAdminNetworkPolicy'],
  'projectcalico.org': CALICO,
  'crd.projectcalico.org': CALICO,
  'cilium.io': [
    ...['CiliumClusterwideNetworkPolicy', 'CiliumNetworkPolicy', 'CiliumCIDRGroup'],
    'CiliumEgressGatewayPolicy',
  ],
  'ingressnodefirewall.openshift.io': ['IngressNodeFirewall'],
  'crd.antrea.io': ['NetworkPolicy', 'Group'],
  [MIGRATED_GROUP]: [
    ...['EgressGateway', 'EgressPolicy', 'EgressClusterPolicy', 'EgressGatewayPolicy', 'EgressClusterInfo'],
  ],
};

/** Kinds that Antrea has too; the rest are nodewall's alone. */
export const SHARED_KINDS: readonly string[] = ['ClusterNetworkPolicy', 'Tier', 'ClusterGroup'];

interface ObjectType {
  readonly apiVersion: string;
  readonly kind: string;
}

/**
 * Names an object that is not read although somebody may count on it: a notice for one of another
 * firewall, a warning for one whose API group or kind seems mistyped. Each stands for all objects
 * of its kind.
 *
 * @param kinds those of nodewall.io
 */
export function checkForeign(
  { apiVersion, kind }: ObjectType,
  kinds: readonly string[],
  found: Findings,
): void {
  const [group = ''] = apiVersion.split('/', 1);
  if (Object.hasOwn(FOREIGN_KINDS, group) && FOREIGN_KINDS[group]?.includes(kind)) {
    found.notice([], foreignText(group), { perKind: true });
    return;
  }
  const message = mistypedText({ apiVersion, kind }, kinds);
  if (message === null) return;
  const field = isReadGroup(group) ? 'kind' : 'apiVersion';
  found.warning([field], message, { perKind: true });
}

function foreignText(group: string): string {
  const instead =
    group === MIGRATED_GROUP
      ? '`nodewall migrate` translates it'
      : 'docs/coming-from.md has what takes its place';
  if (isReadGroup(group))
    return `is for pods, so nodewall does not read it: it decides nothing here; ${instead}`;
  return `is of ${group}, which nodewall does not read: it decides nothing here; ${instead}`;
}

/** Null: nothing of ours is near. */
function mistypedText({ apiVersion, kind }: ObjectType, kinds: readonly string[]): string | null {
  const [group = ''] = apiVersion.split('/', 1);
  if (isReadGroup(group)) {
    const near = nearest(kind, SHARED_KINDS);
    return near === null
      ? null
      : `${show(kind)} is not read, so this object is ignored; did you mean ${near}?`;
  }
  const ignored = `${show(apiVersion)} is not read by nodewall, so this object is ignored`;
  const near = nearest(group, Object.keys(API_VERSIONS));
  if (near === 'nodewall.io' || (near !== null && SHARED_KINDS.includes(kind)))
    return `${ignored}; did you mean ${near}/${API_VERSIONS[near as ApiGroup]}?`;
  // No other project is known to have these, and Kubernetes has neither without a group.
  const isOurs = kind === 'ClusterNetworkPolicy' || (!apiVersion.includes('/') && kinds.includes(kind));
  if (!isOurs) return null;
  const versions = Object.entries(API_VERSIONS).map(([one, version]) => `${one}/${version}`);
  return `${ignored}; nodewall reads ${versions.join(' and ')}`;
}

function isReadGroup(group: string): boolean {
  return Object.hasOwn(API_VERSIONS, group);
}
