import { type CompiledRule, type NodeState, namedBy } from '../../apis/compiled.ts';
import { inEvaluationOrder } from '../../apis/order.ts';

/** A state in two forms, which have the same rules. */
export interface Forms {
  /** Without what the node adds: it may be saved. */
  readonly plain: NodeState;
  /** With what the node adds: a deadline, addresses of names, pods. It is rendered. */
  readonly resolved: NodeState;
}

/** The state that is wanted, and where it comes from. */
export interface Wanted {
  readonly wanted: NodeState;
  /**
   * The state that `wanted` was made from: the controller's view, or the state confirmed last; of
   * manifests, `wanted` itself.
   */
  readonly received: NodeState;
  /** The controller's revision of `received`; null: not known. */
  readonly revision: string | null;
}

/**
 * A state on its way to the kernel. It is never changed: a layer that adds a part passes another
 * envelope on. The answer (Enforced) has the envelope that was submitted last, so that nobody has
 * to find out what a state was made from. `plain` is `wanted` with the confirmed version of what is
 * held.
 */
export interface Envelope extends Forms, Wanted {
  /** Counts the states before which the guard makes probes; null: not counted. */
  readonly round: number | null;
}

/** The envelope of a state before anything is added. */
export function envelopeOf(
  wanted: NodeState,
  { received, revision }: Pick<Wanted, 'received' | 'revision'> = { received: wanted, revision: null },
): Envelope {
  return { wanted, received, revision, round: null, plain: wanted, resolved: wanted };
}

/** With this resolved form: the same object if that is what it has. */
export function withResolved(envelope: Envelope, resolved: NodeState): Envelope {
  return resolved === envelope.resolved ? envelope : { ...envelope, resolved };
}

/** The rules of one policy taken from another state, in both forms; null: it has none. */
export function substituteForms({ plain, resolved }: Forms, key: string, from: Forms | null): Forms {
  return {
    plain: substitute(plain, key, from?.plain ?? null),
    resolved: substitute(resolved, key, from?.resolved ?? null),
  };
}

/** Identifies one policy among those of a node. */
export function policyKey({
  source,
}: {
  readonly source: Pick<CompiledRule['source'], 'apiGroup' | 'policy'>;
}): string {
  return `${source.apiGroup}/${source.policy}`;
}

/**
 * The state with the rules of one policy taken from another state: the policy's last version that
 * was applied, or no rules if there is none.
 */
export function substitute(state: NodeState, key: string, from: NodeState | null): NodeState {
  const replacement = from?.rules.filter((rule) => policyKey(rule) === key) ?? [];
  const rules = [...state.rules.filter((rule) => policyKey(rule) !== key), ...replacement];
  const named = namedBy(rules);
  const addressSets = [state.allNodes, state.controllers, ...named.addressSets];
  return {
    ...state,
    rules: inEvaluationOrder(rules),
    addressSets: pick(addressSets, state.addressSets, from?.addressSets),
    serviceSets: pick(named.serviceSets, state.serviceSets, from?.serviceSets),
  };
}

/** The named sets, sorted by id; if both maps have a set, that of `sets` is taken. */
function pick<T>(
  ids: readonly string[],
  sets: ReadonlyMap<string, T>,
  others: ReadonlyMap<string, T> = new Map(),
): Map<string, T> {
  return new Map(
    [...new Set(ids)].sort().flatMap((id): [string, T][] => {
      const set = sets.get(id) ?? others.get(id);
      return set === undefined ? [] : [[id, set]];
    }),
  );
}

/**
 * Keys of the policies whose rules differ between two states, sorted: the suspects when an apply
 * fails.
 */
export function changedPolicies(state: NodeState, before: NodeState | null): string[] {
  const old = rulesText(before);
  const now = rulesText(state);
  return [...now.keys()].filter((key) => old.get(key) !== now.get(key)).sort();
}

function rulesText(state: NodeState | null): Map<string, string> {
  const groups = Map.groupBy(state?.rules ?? [], policyKey);
  return new Map([...groups].map(([key, rules]) => [key, JSON.stringify(rules)]));
}
