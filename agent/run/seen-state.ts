import type { PolicyId } from '../receive/api-server.ts';
import type { Seen } from '../receive/outage.ts';
import { type AgentState, followedGate, saidGate } from './agent-state.ts';

/** Fields that are null keep their previous value. Returns the same object if nothing changed. */
export function merged(before: Seen, now: Seen): Seen {
  const controllers = now.controllers ?? before.controllers;
  const gate = now.gate ?? before.gate;
  const deleted = now.deleted === null ? before.deleted : union(before.deleted ?? [], now.deleted);
  const isSame = gate === before.gate && controllers?.join() === before.controllers?.join();
  return isSame && deleted === before.deleted ? before : { controllers, gate, deleted };
}

/** As API_GROUP/NAME. */
export function newlyDeleted(before: Seen, { deleted }: Seen): readonly string[] {
  const known = before.deleted?.length ?? 0;
  return (deleted ?? []).slice(known).map(({ apiGroup, policy }) => `${apiGroup}/${policy}`);
}

/** A deleted policy stays deleted: another one of its name has another uid. */
function union(before: readonly PolicyId[], now: readonly PolicyId[]): readonly PolicyId[] {
  const fresh = now.filter(({ uid }) => !before.some((one) => one.uid === uid));
  return fresh.length === 0 ? before : [...before, ...fresh];
}

/**
 * Where the gate has no value, this node keeps what it has: the gate that it followed last. If it
 * does not know one, it has rules, or had some at the end of an earlier run; or it is new.
 */
export function keptIfUnset(
  before: AgentState,
  now: AgentState,
): { readonly state: AgentState; readonly message: string | null } {
  if (saidGate(now) !== 'unset') return { state: now, message: null };
  const enforces = followedGate(before) ?? (before.enabled || before.last !== null);
  const state = { ...now, rememberedGate: enforces };
  if (saidGate(before) === 'unset') return { state, message: null };
  const message = enforces
    ? 'the feature gate has no value: this node goes on enforcing'
    : 'the feature gate has no value: this node enforces nothing, as before';
  return { state, message };
}
