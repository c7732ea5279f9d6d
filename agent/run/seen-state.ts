import type { Seen } from '../receive/outage.ts';
import { type AgentState, followedGate, saidGate } from './agent-state.ts';

/** Fields that are null keep their previous value. Returns the same object if nothing changed. */
export function merged(before: Seen, now: Seen): Seen {
  const controllers = now.controllers ?? before.controllers;
  const gate = now.gate ?? before.gate;
  const isSame = gate === before.gate && controllers?.join() === before.controllers?.join();
  return isSame ? before : { controllers, gate };
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
