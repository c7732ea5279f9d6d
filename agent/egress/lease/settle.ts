import type { OwnedAddress } from '../../../apis/egress/node-egress.ts';
import { ASK_FOR_GRANT, type GatewayReadiness, type HeldSlot } from '../../../apis/heartbeat.ts';
import type { Renewal } from '../floating-kernel.ts';
import { type LeaseEffect, type LeaseState, type LeaseView, NO_SLOT, type SlotLease } from './lease-state.ts';

/** While nothing else is said (milliseconds): by the gateways, where there are any. */
const HEARTBEAT = 500;
/** For so long a grant is asked for each ASK_FOR_GRANT, then with each heartbeat (milliseconds). */
const ASK_FOR = 2_000;
/** At first, where the owner before is there and gives it up, more often (milliseconds). */
const ASK_SOON = { every: 10, for: 250 } as const;
/** Until the next process has begun to renew: an upgrade pulls no image in this time. */
const EXTEND_SECONDS = 30;
/** A slot that could not be taken, and is not wanted, is forgotten after this (milliseconds). */
const HINDRANCE_KEPT = 60_000;

export interface LeaseStep {
  readonly state: LeaseState;
  readonly effects: readonly LeaseEffect[];
}

/**
 * Decides by the state alone which effects are due now: calls of the kernel, the next request, the
 * timer. Each effect is in the new state, so that settling twice does nothing twice.
 */
export function withDueEffects(state: LeaseState, now: number): LeaseStep {
  const { phase } = state;
  if (phase === 'starting' || phase === 'ended') return { state, effects: [arm(Number.POSITIVE_INFINITY)] };
  const effects: LeaseEffect[] = [];
  const done = [callKernel, renew, send].reduce((before, act) => act(before, now, effects), state);
  const isDone = done.phase === 'stopping' && isOver(done);
  return {
    state: isDone ? { ...done, phase: 'ended' } : done,
    effects: [...effects, arm(nextTime(done, now))],
  };
}

/** Takes and drops, one call for each slot. */
function callKernel(state: LeaseState, now: number, effects: LeaseEffect[]): LeaseState {
  const slots = new Map<string, SlotLease>();
  for (const [key, before] of state.slots) {
    const one = { ...before, waitsSince: waitsSince(state, before, now) };
    if (isForgotten(one, now)) continue;
    slots.set(key, one.call === null ? nextCall(state, key, one, now, effects) : one);
  }
  return { ...state, slots };
}

function waitsSince({ isReleased }: LeaseState, one: SlotLease, now: number): number | null {
  const waits = one.wanted !== null && one.until <= now && one.hindrance === null && !isReleased;
  return waits ? (one.waitsSince ?? now) : null;
}

function isForgotten({ wanted, live, hindrance, retryAt }: SlotLease, now: number): boolean {
  return wanted === null && live.size === 0 && (hindrance === null || now >= retryAt + HINDRANCE_KEPT);
}

function nextCall(
  state: LeaseState,
  key: string,
  one: SlotLease,
  now: number,
  effects: LeaseEffect[],
): SlotLease {
  const desired = desiredAddresses(state, one, now);
  const dropped = one.live.difference(desired).union(one.unsure);
  if (dropped.size > 0) {
    if (now < one.redropAt) return one;
    if (one.wanted !== null && one.until <= now) effects.push(lapsed(one));
    effects.push({ kind: 'drop', key, addresses: [...dropped] });
    return { ...one, call: { kind: 'drop', addresses: dropped } };
  }
  const taken = desired.difference(one.live);
  if (taken.size === 0 || now < one.retryAt || state.phase === 'stopping') return one;
  const { until } = one;
  effects.push({ kind: 'take', key, addresses: ownedAddresses(one, taken), until });
  const aliveUntil = Math.max(one.aliveUntil, until);
  return { ...one, live: one.live.union(taken), aliveUntil, call: { kind: 'take', addresses: taken } };
}

/**
 * The addresses that may be alive now: wanted, granted, and silent without a lease by the rules in
 * force.
 */
function desiredAddresses(
  { isReleased, guarded }: LeaseState,
  { wanted, granted, until, live }: SlotLease,
  now: number,
): ReadonlySet<string> {
  if (wanted === null || isReleased || until <= now) return new Set();
  const isWanted = (address: string): boolean =>
    granted.has(address) && (live.has(address) || guarded?.has(address) === true);
  return new Set(wanted.addresses.filter(isWanted));
}

function ownedAddresses({ wanted }: SlotLease, addresses: ReadonlySet<string>): OwnedAddress[] {
  const announce = wanted?.announce ?? 'None';
  return [...addresses].map((address) => ({ address, announce }));
}

function lapsed({ gateway, slot, epoch, live }: SlotLease): LeaseEffect {
  const message = 'the lease of floating addresses has ended: the kernel does not use them any more';
  return { kind: 'log', level: 'warn', message, fields: { gateway, slot, epoch, addresses: [...live] } };
}

/** Gives the kernel the ends of the newest grants, all in one call. */
function renew(state: LeaseState, now: number, effects: LeaseEffect[]): LeaseState {
  if (state.renewing !== null || state.isReleased || now < state.renewRetryAt) return state;
  const slots = new Map(state.slots);
  const ends = new Map<string, number>();
  const renewals: Renewal[] = [];
  for (const [key, one] of state.slots) {
    const { wanted, until, renewedUntil, live, unsure, call } = one;
    if (wanted === null || until <= now || until === renewedUntil) continue;
    const stable = live.difference(unsure).difference(call?.addresses ?? new Set());
    if (stable.size === 0) continue;
    for (const address of stable) renewals.push({ address, until });
    ends.set(key, until);
    slots.set(key, { ...one, aliveUntil: Math.max(one.aliveUntil, until) });
  }
  if (renewals.length === 0) return state;
  effects.push({ kind: 'renew', renewals });
  return { ...state, slots, renewing: { startedAt: now, ends } };
}

function send(state: LeaseState, now: number, effects: LeaseEffect[]): LeaseState {
  const { phase, request, slots, isExtended, unreachable } = state;
  const isExtension = phase === 'stopping';
  if (request !== null || isExtended || now < dueAt(state, now)) return state;
  // A live address of no slot can't be named, so it is dropped before.
  if (slots.has(NO_SLOT)) return state;
  const held = heldSlots(state, now);
  if (isExtension && held.length === 0) return { ...state, isExtended: true };
  const isUnreachable = unreachable.length > 0;
  const isNeeded = candidacies(state).length > 0 || held.length > 0 || isUnreachable;
  if (!isNeeded && !state.isUnreachableKnown) return { ...state, lastSentAt: now, isUrgent: false };
  effects.push({
    kind: 'send',
    request: {
      held,
      ready: readiness(state),
      ...(isUnreachable ? { unreachable } : {}),
      ...(isExtension ? { extendSeconds: EXTEND_SECONDS } : {}),
    },
  });
  return {
    ...state,
    request: { sentAt: now, isExtension },
    isUnreachableKnown: isUnreachable,
    lastSentAt: now,
    isUrgent: false,
    resendAt: Number.POSITIVE_INFINITY,
  };
}

/** When the next request is due. */
function dueAt(state: LeaseState, now: number): number {
  const { slots, lastSentAt, isUrgent, resendAt } = state;
  if (isUrgent) return now;
  const waits = (time: number): boolean =>
    slots.values().some(({ waitsSince: since }) => since !== null && now < since + time);
  const asks = (): number =>
    waits(ASK_SOON.for)
      ? ASK_SOON.every
      : state.phase === 'stopping' || waits(ASK_FOR)
        ? ASK_FOR_GRANT
        : heartbeat(state);
  return Math.min(resendAt, lastSentAt + asks());
}

function heldSlots({ slots }: LeaseState, now: number): HeldSlot[] {
  return [...slots.values()]
    .filter(({ live }) => live.size > 0)
    .map(({ gateway, slot, epoch, live, aliveUntil }) => {
      const milliseconds = Math.max(0, Math.ceil(aliveUntil - now));
      return { gateway, slot, epoch, addresses: [...live].sort(), milliseconds };
    });
}

function readiness(state: LeaseState): GatewayReadiness[] {
  const { isReleased, guarded, unready, slots } = state;
  if (guarded === null && !isReleased) return [];
  const hindered = new Map(
    slots
      .values()
      .flatMap(({ gateway, hindrance }) => (hindrance === null ? [] : [[gateway, hindrance] as const])),
  );
  return candidacies(state).map(({ gateway }) => {
    const found = unready.get(gateway) ?? hindered.get(gateway);
    const reason = isReleased ? 'AgentOff' : found;
    return reason === undefined ? { gateway, ready: true } : { gateway, ready: false, reason };
  });
}

function candidacies({ view }: LeaseState): LeaseView['candidacies'] {
  return view?.candidacies ?? [];
}

function heartbeat(state: LeaseState): number {
  return Math.min(HEARTBEAT, ...candidacies(state).map(({ heartbeatMilliseconds: one }) => one));
}

/** Whether a process that ends has nothing left to do. */
function isOver({ isExtended, request, renewing, slots }: LeaseState): boolean {
  return (
    isExtended &&
    request === null &&
    renewing === null &&
    slots.values().every(({ call, until, renewedUntil, live }) => {
      return call === null && (live.size === 0 || until === renewedUntil);
    })
  );
}

/** When the state alone makes something due. */
function nextTime(state: LeaseState, now: number): number {
  const { request, renewRetryAt, slots } = state;
  const times = slots.values().flatMap(({ call, until, retryAt, redropAt, live, hindrance }) => {
    if (call !== null) return [];
    return [
      retryAt,
      redropAt,
      hindrance === null ? retryAt : retryAt + HINDRANCE_KEPT,
      live.size > 0 ? until : now,
    ];
  });
  const all = [...times, renewRetryAt, request === null ? dueAt(state, now) : now];
  return Math.min(...all.filter((time) => time > now), Number.POSITIVE_INFINITY);
}

function arm(at: number): LeaseEffect {
  return { kind: 'arm', at };
}
