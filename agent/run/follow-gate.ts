import { shortHash } from '../../lib/sharing/hash.ts';
import { type AgentState, followedGate, gateOf, saidGate } from './agent-state.ts';

/** The meaning of a new state for this node's turn to switch off. */
type Turn =
  /** Nothing changes: there is no turn to wait for, or it is waited for already. */
  | { readonly kind: 'same' }
  /** The gate was turned off for all nodes; this one follows after so many milliseconds. */
  | { readonly kind: 'wait'; readonly milliseconds: number }
  /** It was turned on again, or off at once. */
  | { readonly kind: 'end'; readonly isOff: boolean };

const SAME: Turn = { kind: 'same' };

/**
 * Nodes follow a gate that is turned off one by one, over the time that the controller says, so
 * that a mistake can be taken back before it is everywhere. An agent that was told by the API
 * server, since no controller answers, follows at once: that may be the way back in.
 */
export function switchOffTurn(before: AgentState, now: AgentState): Turn {
  const isOff = gateOf(now) === false;
  const over = now.seen.gate === null ? (now.folded?.over ?? 0) : 0;
  if (before.isSwitchingOff) {
    if (!isOff) return { kind: 'end', isOff };
    return now.seen.gate === null && over === 0 ? { kind: 'end', isOff } : SAME;
  }
  if (!isOff || over === 0 || gateOf(before) !== true) return SAME;
  return { kind: 'wait', milliseconds: Math.round((now.place ?? 0) * over * 1000) };
}

/** The node's place among all, from 0 to 1, the same each time. */
export function placeAmongNodes(node: string): number {
  return Number.parseInt(shortHash(8, node), 16) / 2 ** 32;
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
