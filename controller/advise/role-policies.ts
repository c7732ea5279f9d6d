import type { ClusterNetworkPolicySpec, Direction, PolicyTraffic } from '../../apis/objects.ts';
import { present } from '../../lib/sharing/present.ts';
import { type SeenOwner, type SeenUse, sortOwners } from './node-class.ts';
import { isSinglePeer } from './peer-owner.ts';
import { draftPeers, type Surroundings } from './role-peers.ts';
import type { Role } from './roles.ts';
import { type AdvisedRule, joinDrafts, type RuleDraft, toAdvisedRule } from './rule-draft.ts';
import { compareServices } from './seen-service.ts';

/** The most rules of a role, those that close the rest included. */
const MOST_RULES = 12;
/** Services with the fewest connections beyond this number are in no rule. */
const MOST_SERVICES = 256;

export interface PolicyOptions {
  readonly directions: readonly Direction[];
  readonly maxCidrs: number;
  readonly tier: string;
  readonly priority: number;
}

export interface AdvisedPolicy {
  readonly name: string;
  readonly spec: ClusterNetworkPolicySpec;
  /** As the rules of the spec. */
  readonly ingress: readonly AdvisedRule[];
  readonly egress: readonly AdvisedRule[];
}

/**
 * The policies of a role: one for the node itself, and one for NodePorts if some were used. Each
 * list ends with a rule that drops the rest. `odd`: who is in no rule.
 */
export function rolePolicies(
  role: Role,
  surroundings: Surroundings,
  { directions, maxCidrs, tier, priority }: PolicyOptions,
): { readonly policies: AdvisedPolicy[]; readonly odd: SeenOwner[] } {
  const { drafts, odd } = toDrafts(role, surroundings, directions);
  const hasNodePorts = drafts.some(({ traffic }) => traffic === 'NodePort');
  const few = joinDrafts(drafts, MOST_RULES - directions.length - Number(hasNodePorts));
  const listOf = (wanted: Direction, traffic: PolicyTraffic): AdvisedRule[] => {
    if (!directions.includes(wanted) || (wanted === 'egress' && traffic === 'NodePort')) return [];
    const own = few.filter((one) => one.direction === wanted && one.traffic === traffic);
    const rules = own.map((draft) => toAdvisedRule(draft, maxCidrs, role.nodes.length));
    // Once it is enforced, its records say what it drops.
    const rest = { name: wanted === 'ingress' ? 'in-rest' : 'out-rest', action: 'Drop' as const };
    return [...rules, { rule: { ...rest, enableLogging: true }, evidence: null }];
  };
  const toPolicy = (traffic: PolicyTraffic): AdvisedPolicy => {
    const [ingress, egress] = [listOf('ingress', traffic), listOf('egress', traffic)];
    const rulesOf = (list: readonly AdvisedRule[]) =>
      list.length === 0 ? undefined : list.map(({ rule }) => rule);
    const more = present({
      traffic: traffic === 'NodePort' ? traffic : undefined,
      appliedTo: role.selector === null ? undefined : [{ nodeSelector: role.selector }],
      ingress: rulesOf(ingress),
      egress: rulesOf(egress),
    });
    const name = `advised-${role.name}${traffic === 'NodePort' ? '-nodeports' : ''}`;
    return { name, spec: { tier, priority, mode: 'Audit', ...more }, ingress, egress };
  };
  return { policies: [toPolicy('Host'), ...(hasNodePorts ? [toPolicy('NodePort')] : [])], odd };
}

/** The drafts for what was seen of each service, and what is in none of them. */
function toDrafts(
  { seen }: Role,
  surroundings: Surroundings,
  directions: readonly Direction[],
): { readonly drafts: RuleDraft[]; readonly odd: SeenOwner[] } {
  const suspicions = { scanners: surroundings.scanners, deniedAt: seen.deniedAt.bind(seen) };
  const byService = (a: { readonly use: SeenUse }, b: { readonly use: SeenUse }): number =>
    compareServices(a.use.seen.service, b.use.seen.service);
  const found = [...seen.uses.values()]
    .filter((use) => directions.includes(use.seen.service.direction))
    .map((use) => {
      const owners = sortOwners(use, suspicions);
      const weigh = (sum: number, { reason, evidence }: SeenOwner): number =>
        reason === null ? sum + evidence.connections : sum;
      return { use, owners, weight: owners.reduce(weigh, 0) };
    })
    .sort((a, b) => b.weight - a.weight || byService(a, b));
  const rest = found.slice(MOST_SERVICES).flatMap(({ owners }) => owners);
  const few = found.slice(0, MOST_SERVICES).sort(byService);
  return {
    drafts: few.flatMap(({ use, owners }) => useDrafts(use, owners, surroundings)),
    odd: [
      ...few.flatMap(({ owners }) => owners.filter(({ reason }) => reason !== null)),
      ...rest.map((one) => ({ ...one, reason: one.reason ?? 'too-many' })),
    ],
  };
}

/** The drafts for a service: one for the Services behind which it is, and one for other peers. */
function useDrafts(
  { seen: { service }, nodeCount }: SeenUse,
  owners: readonly SeenOwner[],
  surroundings: Surroundings,
): RuleDraft[] {
  // An address of a pod that is gone will be another pod's.
  const odd = owners.flatMap(({ owner, reason }) =>
    owner.kind === 'block' && reason !== null && isSinglePeer(owner) ? owner.cidr : [],
  );
  const good = owners.filter(({ reason }) => reason === null);
  const groups = Map.groupBy(good, ({ owner }) => (owner.kind === 'service' ? 'services' : 'ports'));
  return [...groups].flatMap(([own, some]) => {
    const peers = draftPeers(
      some.map(({ owner }) => owner),
      surroundings,
    );
    if (peers.size === 0) return [];
    const services = [{ service, evidence: some.map(({ evidence }) => evidence), nodeCount }];
    const { direction, traffic } = service;
    const avoid = [...surroundings.scanning, ...odd];
    return { direction, traffic, form: own, peers, services, avoid, unseen: 0 };
  });
}
