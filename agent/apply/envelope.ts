import type { NodeState } from '../../apis/compiled.ts';
import { substitute } from './plan/substitute.ts';

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
