import type {
  ClusterNetworkPolicy,
  ClusterNetworkPolicySpec,
  ClusterObjects,
  PolicyRollout,
  PolicyShare,
  PolicyVersionSpec,
} from '../../apis/objects.ts';
import type { RolloutDecision, RolloutMember } from '../../apis/rollout.ts';
import { checkPolicyReferences } from '../../apis/validate/references.ts';
import { present } from '../../lib/sharing/present.ts';
import { rolloutKey, versionSpec, withLastDecision } from './order.ts';

type Objects = Pick<ClusterObjects, 'policies' | 'groups' | 'tiers'>;

interface Known {
  readonly counting: PolicyRollout;
  readonly objects: Objects;
  readonly versions: readonly ClusterNetworkPolicy[];
}

const FOR_NO_NODE = { since: 0, nodes: { through: '', firsts: [], salt: '', areTaking: true } };

/**
 * From policies to the versions of them that nodes get. Every controller computes the same from the
 * same objects: the decisions and the versions are in the policies' statuses. Only for a policy of
 * which nothing is decided yet the process's memory counts: what it enforced stays.
 */
export class NodeVersions {
  readonly #interfaceGroups: readonly string[] | undefined;
  /** By uid. */
  readonly #served = new Map<string, ClusterNetworkPolicy>();
  #known = new WeakMap<ClusterNetworkPolicy, Known>();
  #last: { readonly objects: Objects; readonly policies: readonly ClusterNetworkPolicy[] } | null = null;

  /** @param interfaceGroups the names in the configuration; absent: the predefined ones */
  constructor(interfaceGroups?: readonly string[]) {
    this.#interfaceGroups = interfaceGroups;
  }

  /** The objects, with versions in the place of policies that have a rollout. */
  on<T extends Objects>(objects: T): T {
    const last = this.#last;
    const isSame =
      last?.objects.policies === objects.policies &&
      last.objects.groups === objects.groups &&
      last.objects.tiers === objects.tiers;
    const policies = isSame ? last.policies : this.#versions(objects);
    this.#last = { objects, policies };
    return policies === objects.policies ? objects : { ...objects, policies };
  }

  /**
   * The version of a policy that was enforced before anything was decided; null: none that is
   * known.
   */
  served(uid: string): PolicyVersionSpec | null {
    const policy = this.#served.get(uid);
    return policy === undefined ? null : { generation: policy.generation, spec: versionSpec(policy.spec) };
  }

  #versions(objects: Objects): readonly ClusterNetworkPolicy[] {
    const { policies } = objects;
    const members = policies.flatMap((policy) =>
      policy.rollout === undefined ? [] : { policy, ...policy.rollout },
    );
    this.#forgetDeleted(policies);
    if (members.length === 0) {
      for (const policy of policies) this.#served.set(policy.uid, policy);
      return policies;
    }
    const groups = Map.groupBy(members, ({ policy }) => rolloutKey(policy));
    const counting = new Map(
      [...groups].map(([key, group]) => [key, withLastDecision(key, group)?.policy.rollout ?? null]),
    );
    return policies.flatMap((policy) => {
      if (policy.rollout === undefined) {
        this.#served.set(policy.uid, policy);
        return policy;
      }
      return this.#versionsOf(policy, policy.rollout, counting.get(rolloutKey(policy)) ?? null, objects);
    });
  }

  #versionsOf(
    policy: ClusterNetworkPolicy,
    rollout: PolicyRollout,
    counting: PolicyRollout | null,
    objects: Objects,
  ): readonly ClusterNetworkPolicy[] {
    // Until the rollout that it came to has decided on it, the decision of the last one counts.
    const decided = [counting, rollout].flatMap((one) => {
      const entry = one?.decision?.policies.find(({ uid }) => uid === policy.uid);
      return one?.decision == null || entry === undefined ? [] : { entry, decision: one.decision, of: one };
    })[0];
    if (decided === undefined) return this.#undecided(policy, rollout);
    const { entry, decision, of } = decided;
    const known = this.#known.get(policy);
    const isSame = known?.objects.groups === objects.groups && known.objects.tiers === objects.tiers;
    if (isSame && known.counting === of) return known.versions;
    const versions = this.#decided(policy, entry, { decision, since: of.since }, objects);
    this.#known.set(policy, { counting: of, objects, versions });
    return versions;
  }

  /** With the version to come, for no node: the leader needs to know its nodes. */
  #undecided(policy: ClusterNetworkPolicy, { isSeen }: PolicyRollout): readonly ClusterNetworkPolicy[] {
    const coming = version(policy, policy.generation, policy.spec, FOR_NO_NODE);
    const served = this.#served.get(policy.uid);
    if (served !== undefined) return served.generation === policy.generation ? [served] : [served, coming];
    if (!isSeen) return [coming];
    this.#served.set(policy.uid, policy);
    return [policy];
  }

  #decided(
    policy: ClusterNetworkPolicy,
    { from, to }: RolloutMember,
    { decision, since }: { readonly decision: RolloutDecision; readonly since: number },
    objects: Objects,
  ): readonly ClusterNetworkPolicy[] {
    const specOf = (generation: number) => this.#specOf(policy, generation, objects);
    const { through, firsts, state, key: salt } = decision;
    const nodes = { through, firsts, salt };
    const [old, aim] = [from === 0 ? null : specOf(from), specOf(to) ?? policy.spec];
    const versions: ClusterNetworkPolicy[] = [];
    const add = (
      generation: number,
      spec: ClusterNetworkPolicySpec | null,
      share: Omit<PolicyShare, 'version'>,
    ): void => {
      if (spec !== null) versions.push(version(policy, generation, spec, share));
    };
    // A version that cannot be compiled any more is none that a node could keep.
    const isEveryones = state === 'Completed' || from === to || (from !== 0 && old === null);
    if (isEveryones) add(to, aim, { since });
    else if (state === 'Undone') add(from, old, { since });
    else {
      add(from, old, { since, nodes: { ...nodes, areTaking: false } });
      add(to, aim, { since, nodes: { ...nodes, areTaking: true } });
    }
    const isThere = versions.some(({ generation }) => generation === policy.generation);
    if (!isThere) add(policy.generation, policy.spec, FOR_NO_NODE);
    return versions;
  }

  /** Null if the version is not stored, or names a tier or group that does not exist any more. */
  #specOf(
    policy: ClusterNetworkPolicy,
    generation: number,
    objects: Objects,
  ): ClusterNetworkPolicySpec | null {
    if (generation === policy.generation) return policy.spec;
    const stored = policy.rollout?.versions.find((one) => one.generation === generation);
    if (stored === undefined) return null;
    const named = { ...objects, interfaceGroups: this.#interfaceGroups, invalid: new Set<string>() };
    const problems = checkPolicyReferences([{ ...policy, spec: stored.spec }], named);
    return problems.length === 0 ? stored.spec : null;
  }

  #forgetDeleted(policies: readonly ClusterNetworkPolicy[]): void {
    if (this.#served.size <= policies.length) return;
    const there = new Set(policies.map(({ uid }) => uid));
    for (const uid of this.#served.keys()) if (!there.has(uid)) this.#served.delete(uid);
  }
}

function version(
  { kind, apiGroup, name, uid, retry }: ClusterNetworkPolicy,
  generation: number,
  spec: ClusterNetworkPolicySpec,
  share: Omit<PolicyShare, 'version'>,
): ClusterNetworkPolicy {
  return {
    kind,
    apiGroup,
    name,
    uid,
    generation,
    ...present({ retry }),
    spec: versionSpec(spec),
    share: { ...share, version: String(generation) },
  };
}
