import type { ClusterNetworkPolicySpec, Direction, PolicyTraffic, Rule } from '../../apis/objects.ts';
import type { NodeClass } from './node-class.ts';
import { bySamePeers, type OddOwner, type Surroundings, serviceDrafts } from './role-drafts.ts';
import type { Role } from './roles.ts';
import { joinDrafts, type RuleDraft } from './rule-draft.ts';
import { compareServices, hasPorts, hasTypes } from './seen-service.ts';
import { type AdvisedRule, ruleName, toRule } from './to-rule.ts';

/** The most rules of a role, those that close the rest included. */
export const MOST_RULES = 12;
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

/** Names of rules begin with it: they are unique in a policy. */
const PREFIX = { ingress: 'in', egress: 'out' } as const;

/** The closing deny of each list; once it is enforced, its records say what it drops. */
function restOf(direction: Direction): AdvisedRule {
  const name = `${PREFIX[direction]}-rest`;
  return { rule: { name, action: 'Drop', enableLogging: true }, evidence: null };
}

/** Rules of one policy and direction that can be joined with each other. */
interface Group {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  drafts: RuleDraft[];
}

/**
 * The policies of a role: one for the node itself, and one for NodePorts if some were used. Each
 * list ends with a rule that drops the rest.
 */
export function rolePolicies(
  role: Role,
  surroundings: Surroundings,
  options: PolicyOptions,
): { readonly policies: AdvisedPolicy[]; readonly odd: OddOwner[] } {
  const { groups, odd } = toGroups(role.seen, surroundings, options);
  const hasNodePorts = groups.some(({ traffic }) => traffic === 'NodePort');
  const closing = options.directions.length + Number(hasNodePorts);
  fit(groups, MOST_RULES - closing);
  const listOf = (wanted: Direction, of: PolicyTraffic): AdvisedRule[] => {
    if (!options.directions.includes(wanted)) return [];
    const own = groups.filter(({ direction, traffic }) => direction === wanted && traffic === of);
    const drafts = own.flatMap((group) => group.drafts).sort(compareDrafts);
    const nodeCount = role.nodes.length;
    const rules = drafts.map((draft) => ({
      name: `${PREFIX[wanted]}-${ruleName(draft)}`,
      of: toRule(draft, { direction: wanted, maxCidrs: options.maxCidrs, nodeCount }),
    }));
    return [...named(rules), restOf(wanted)];
  };
  const toPolicy = (of: PolicyTraffic): AdvisedPolicy => {
    const ingress = listOf('ingress', of);
    const egress = of === 'Host' ? listOf('egress', of) : [];
    return {
      name: `advised-${role.name}${of === 'NodePort' ? '-nodeports' : ''}`,
      spec: specOf(role, of, { ingress, egress }, options),
      ingress,
      egress,
    };
  };
  return { policies: [toPolicy('Host'), ...(hasNodePorts ? [toPolicy('NodePort')] : [])], odd };
}

function specOf(
  { selector }: Role,
  traffic: PolicyTraffic,
  { ingress, egress }: Readonly<Record<Direction, readonly AdvisedRule[]>>,
  { tier, priority }: PolicyOptions,
): ClusterNetworkPolicySpec {
  const rules = (list: readonly AdvisedRule[]): Rule[] => list.map(({ rule }) => rule);
  return {
    tier,
    priority,
    mode: 'Audit' as const,
    ...(traffic === 'NodePort' ? { traffic } : {}),
    ...(selector === null ? {} : { appliedTo: [{ nodeSelector: selector }] }),
    ...(ingress.length === 0 ? {} : { ingress: rules(ingress) }),
    ...(egress.length === 0 ? {} : { egress: rules(egress) }),
  };
}

function toGroups(
  seen: NodeClass,
  surroundings: Surroundings,
  { directions }: PolicyOptions,
): { readonly groups: Group[]; readonly odd: OddOwner[] } {
  const odd: OddOwner[] = [];
  const byGroup = new Map<string, Group>();
  const wanted = [...seen.services.values()].filter(({ service }) => directions.includes(service.direction));
  const found = wanted.map((of) => {
    const suspicions = { scanners: surroundings.scanners, deniedAt: seen.deniedAt(of.service) };
    return { of, ...serviceDrafts(of, suspicions, surroundings) };
  });
  const weightOf = (drafts: readonly RuleDraft[]): number =>
    drafts
      .flatMap(({ services }) => services.flatMap(({ evidence }) => evidence))
      .reduce((sum, { connections }) => sum + connections, 0);
  found.sort(
    (a, b) => weightOf(b.drafts) - weightOf(a.drafts) || compareServices(a.of.service, b.of.service),
  );
  for (const [i, { of, drafts, odd: aside }] of found.entries()) {
    odd.push(...aside);
    const { service } = of;
    if (i >= MOST_SERVICES) {
      const asideKeys = new Set(aside.map(({ owner }) => owner.key));
      const rest = [...of.owners].filter(({ owner }) => !asideKeys.has(owner.key));
      odd.push(...rest.map((one) => ({ ...one, service, reason: 'too-many' as const })));
      continue;
    }
    for (const draft of drafts) {
      const isOfService = [...draft.peers.values()].some(({ kind }) => kind === 'service');
      const form = isOfService ? 'services' : hasPorts(service) || hasTypes(service) ? 'ports' : 'everything';
      const { direction, traffic } = service;
      const key = `${direction} ${traffic} ${form}`;
      const group = byGroup.get(key) ?? { direction, traffic, drafts: [] };
      byGroup.set(key, group);
      group.drafts.push(draft);
    }
  }
  const groups = [...byGroup.entries()].map(([key, group]) => {
    // Services bring their ports, and where no port can be named the peers are all that counts.
    const joined = key.endsWith(' ports') ? bySamePeers(group.drafts) : joinDrafts(group.drafts, 1);
    return {
      ...group,
      drafts: joined.map((draft) => (key.endsWith(' ports') ? draft : { ...draft, unseen: 0 })),
    };
  });
  return { groups, odd };
}

/** Joins rules until there are at most `most`, those of the largest group first. */
function fit(groups: readonly Group[], most: number): void {
  const count = (): number => groups.reduce((sum, { drafts }) => sum + drafts.length, 0);
  while (count() > most) {
    const largest = groups.reduce((one, other) => (other.drafts.length > one.drafts.length ? other : one));
    if (largest.drafts.length <= 1) return;
    const others = groups.filter((group) => group !== largest).map(({ drafts }) => drafts.length);
    // At once down to the next largest group, or to what is needed.
    const target = Math.max(
      Math.max(1, ...others) - (others.some((length) => length === largest.drafts.length) ? 1 : 0),
      largest.drafts.length - (count() - most),
      1,
    );
    largest.drafts = joinDrafts(largest.drafts, Math.min(target, largest.drafts.length - 1));
  }
}

function compareDrafts(a: RuleDraft, b: RuleDraft): number {
  const [first, other] = [a, b].map(
    ({ services }) => services.map(({ service }) => service).sort(compareServices)[0],
  );
  if (first === undefined || other === undefined) return 0;
  return compareServices(first, other) || b.services.length - a.services.length;
}

/** Names are unique in a policy; equal ones are numbered. */
function named(rules: readonly { readonly name: string; readonly of: AdvisedRule }[]): AdvisedRule[] {
  const counts = new Map<string, number>();
  return rules.map(({ name, of }) => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return { ...of, rule: { name: count === 1 ? name : `${name}-${count}`, ...of.rule } };
  });
}
