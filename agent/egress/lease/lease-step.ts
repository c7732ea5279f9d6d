import { slotKey } from '../../../apis/egress/node-egress.ts';
import { LEASE_MARGIN, type LeaseGrant } from '../../../apis/heartbeat.ts';
import {
  emptySlot,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
  type LeaseView,
  NO_SLOT,
  type SlotLease,
} from './lease-state.ts';
import { type LeaseStep, withDueEffects } from './settle.ts';

/** After a failed call of the kernel, and for a renewal (milliseconds). */
const CALL_RETRY = 200;
/** While another host answers for an address, or calls keep failing (milliseconds). */
const LONG_RETRY = 10_000;
/** From so many failures on, another node should have the slot. */
const MOST_FAILURES = 3;
/**
 * A renewal that took longer is made again: its timeouts may end so much too late (milliseconds).
 */
const SLOW_RENEWAL = LEASE_MARGIN / 2;
/** A process that ends asks for no longer (milliseconds). */
const EXTEND_WITHIN = 2_000;
/** The first retry after a request without an answer (milliseconds): another replica may answer. */
const FIRST_RETRY = 50;
/** Failures are logged after this time (milliseconds): a replica that stops is none. */
const AWAY_LOGGED_AFTER = 1_000;

/**
 * Pure: the same state, event and time give the same step.
 * @param now monotonic milliseconds, of the clock of `sentAt` and of all ends
 */
export function leaseStep(state: LeaseState, event: LeaseEvent, now: number): LeaseStep {
  const logs: LeaseEffect[] = [];
  const next = begun(happened(state, event, now, logs), now, logs);
  const settled = withDueEffects(next, now);
  return { state: settled.state, effects: [...logs, ...settled.effects] };
}

type Logs = LeaseEffect[];

function happened(state: LeaseState, event: LeaseEvent, now: number, logs: Logs): LeaseState {
  switch (event.kind) {
    case 'read':
      return { ...state, found: event.alive };
    case 'viewed':
      return viewed(state, event.view);
    case 'enforced':
      // An apply that was in progress may end now; its rules are about to be removed, too.
      return state.isReleased ? state : { ...state, guarded: event.guarded };
    case 'health':
      return { ...state, unready: event.unready, unreachable: event.unreachable, isUrgent: true };
    case 'answered':
      return answered(state, event.grants, now, logs);
    case 'unanswered':
      return unanswered(state, event.error, now, logs);
    case 'taken':
    case 'dropped':
    case 'failed':
      return called(state, event, now, logs);
    case 'renewed':
      return renewed(state, new Set(event.ended), now);
    case 'notRenewed':
      logs.push(log('error', 'cannot renew floating addresses in the kernel; trying again', event));
      return { ...state, renewing: null, renewRetryAt: now + CALL_RETRY };
    case 'timer':
      return state;
    case 'release':
      return { ...state, isReleased: true, guarded: null, isUrgent: true };
    case 'stop':
      return { ...state, phase: state.phase === 'starting' ? 'ended' : 'stopping', stoppedAt: now };
  }
}

/** Once the kernel was read and the controller has spoken, it is known whose slots are alive. */
function begun(state: LeaseState, now: number, logs: Logs): LeaseState {
  const { phase, found, view } = state;
  if (phase !== 'starting' || found === null || view === null) return state;
  const rest = new Map(found);
  const slots = new Map<string, SlotLease>();
  for (const wanted of view.owned) {
    const alive = wanted.addresses.filter((address) => rest.has(address));
    const ends = alive.map((address) => rest.get(address) ?? now);
    for (const address of alive) rest.delete(address);
    const adopted: Partial<SlotLease> = alive.length === 0 ? {} : adoptedEnds(ends);
    const granted = new Set(alive);
    const { gateway, slot, epoch } = wanted;
    const fields = { gateway, slot, epoch, addresses: alive };
    if (alive.length > 0) logs.push(log('info', 'this process goes on with floating addresses', fields));
    slots.set(slotKey(wanted), {
      ...emptySlot(gateway, slot),
      wanted,
      epoch,
      granted,
      live: granted,
      ...adopted,
    });
  }
  // They are no slot's, so no request can name them: they are dropped before the first one.
  if (rest.size > 0) slots.set(NO_SLOT, { ...emptySlot('', ''), live: new Set(rest.keys()) });
  return { ...state, phase: 'running', slots };
}

function adoptedEnds(ends: readonly number[]): Partial<SlotLease> {
  const until = Math.min(...ends);
  return { until, renewedUntil: until, aliveUntil: Math.max(...ends) };
}

function viewed(state: LeaseState, view: LeaseView): LeaseState {
  if (state.phase === 'starting') return { ...state, view };
  const wanted = new Map(view.owned.map((one) => [slotKey(one), one] as const));
  const slots = new Map(state.slots);
  let isNew = false;
  for (const [key, one] of wanted) {
    const before = slots.get(key) ?? emptySlot(one.gateway, one.slot);
    // A slot that comes back has no grant: what it had was for its earlier life.
    const isBack = before.wanted === null;
    isNew ||= isBack || before.wanted.epoch !== one.epoch;
    slots.set(key, {
      ...before,
      wanted: one,
      ...(isBack ? { until: Number.NEGATIVE_INFINITY } : {}),
    });
  }
  for (const [key, one] of slots) if (!wanted.has(key)) slots.set(key, { ...one, wanted: null });
  return { ...state, view, slots, isUrgent: state.isUrgent || isNew };
}

function answered(state: LeaseState, grants: readonly LeaseGrant[], now: number, logs: Logs): LeaseState {
  const { request } = state;
  if (request === null) return state;
  const slots = new Map(state.slots);
  for (const { gateway, slot, epoch, addresses, milliseconds } of grants) {
    const key = slotKey({ gateway, slot });
    const one = slots.get(key);
    // A grant of an epoch that the stream does not have is for an earlier or later time.
    if (one === undefined || one.wanted?.epoch !== epoch) continue;
    const until = request.sentAt + milliseconds;
    slots.set(key, { ...one, epoch, granted: new Set(addresses), until });
  }
  if (state.isAwayLogged) {
    const seconds = Math.round((now - (state.awaySince ?? now)) / 1000);
    logs.push(log('info', 'a controller answers for leases of floating addresses again', { seconds }));
  }
  const isExtended =
    request.isExtension && (isGranted(slots, grants) || now - (state.stoppedAt ?? now) >= EXTEND_WITHIN);
  return { ...state, slots, request: null, awaySince: null, isAwayLogged: false, isExtended };
}

/**
 * The leader writes an extension into the status before it grants it: the first answers are
 * without.
 */
function isGranted(slots: ReadonlyMap<string, SlotLease>, grants: readonly LeaseGrant[]): boolean {
  const extended = new Set(
    grants.flatMap((grant) => {
      const lease = slots.get(slotKey(grant))?.wanted?.leaseMilliseconds ?? Number.POSITIVE_INFINITY;
      return grant.milliseconds > lease ? slotKey(grant) : [];
    }),
  );
  return slots
    .entries()
    .every(([key, { wanted, live }]) => wanted === null || live.size === 0 || extended.has(key));
}

function unanswered(state: LeaseState, error: string, now: number, logs: Logs): LeaseState {
  const { request, phase } = state;
  const awaySince = state.awaySince ?? now;
  const isAwayLogged = state.isAwayLogged || now - awaySince >= AWAY_LOGGED_AFTER;
  if (isAwayLogged && !state.isAwayLogged) {
    const message = 'no controller answers for leases of floating addresses; the kernel ends them in time';
    logs.push(log('warn', message, { error }));
  }
  return {
    ...state,
    request: null,
    awaySince,
    isAwayLogged,
    isExtended: state.isExtended || request?.isExtension === true || phase === 'stopping',
    resendAt: state.awaySince === null ? now + FIRST_RETRY : Number.POSITIVE_INFINITY,
  };
}

type Called = Extract<LeaseEvent, { kind: 'taken' | 'dropped' | 'failed' }>;

function called(state: LeaseState, event: Called, now: number, logs: Logs): LeaseState {
  const one = state.slots.get(event.key);
  if (one === undefined || one.call === null) return state;
  const { gateway, slot, call } = one;
  const addresses = [...call.addresses];
  const fields = { gateway, slot, epoch: one.epoch, addresses };
  const put = (change: Partial<SlotLease>): LeaseState => {
    return { ...state, slots: new Map(state.slots).set(event.key, { ...one, call: null, ...change }) };
  };
  if (event.kind === 'failed') {
    const change = failed(one, event.error, now, logs);
    return { ...put(change), isUrgent: state.isUrgent || change.hindrance !== one.hindrance };
  }
  if (event.kind === 'dropped') {
    logs.push(log('info', 'dropped floating addresses', fields));
    const live = one.live.difference(call.addresses);
    // The controller waits for this.
    return { ...put({ live, unsure: one.unsure.difference(call.addresses) }), isUrgent: true };
  }
  const [conflict] = event.conflicts;
  if (conflict === undefined) {
    logs.push(log('info', 'took floating addresses', fields));
    // The probe took time, and the kernel perhaps too: the end is set again by a renewal.
    return put({ hindrance: null, failures: 0, lastError: null, renewedUntil: Number.NaN });
  }
  const message = 'another host has a floating address: the slot is not taken';
  logs.push(log('error', message, { ...fields, ...conflict }));
  const live = one.live.difference(call.addresses);
  const hindrance = 'AddressConflict';
  return { ...put({ live, hindrance, retryAt: now + LONG_RETRY }), isUrgent: true };
}

/** The state that a failed call leaves is not known. */
function failed(one: SlotLease, error: string, now: number, logs: Logs): Partial<SlotLease> {
  const { gateway, slot, epoch, call, unsure } = one;
  const addresses = call?.addresses ?? new Set();
  if (error !== one.lastError) {
    const fields = { gateway, slot, epoch, addresses: [...addresses], error };
    logs.push(log('error', `cannot ${call?.kind} floating addresses; trying again`, fields));
  }
  const failures = one.failures + 1;
  const isHindered = failures >= MOST_FAILURES;
  return {
    unsure: unsure.union(addresses),
    failures,
    lastError: error,
    hindrance: isHindered ? 'AddressNotTaken' : one.hindrance,
    ...(call?.kind === 'drop'
      ? { redropAt: now + CALL_RETRY }
      : { retryAt: now + (isHindered ? LONG_RETRY : CALL_RETRY) }),
  };
}

function renewed(state: LeaseState, ended: ReadonlySet<string>, now: number): LeaseState {
  const { renewing } = state;
  if (renewing === null) return state;
  // A timeout counts from when the kernel gets it, which may have been late by all of this.
  const late = now - renewing.startedAt;
  const slots = new Map(state.slots);
  for (const [key, until] of renewing.ends) {
    const one = slots.get(key);
    if (one === undefined) continue;
    const unsure = one.unsure.union(one.live.intersection(ended));
    // A call that runs may give its addresses another end.
    const aliveUntil = one.call === null ? until + late : Math.max(one.aliveUntil, until + late);
    slots.set(key, { ...one, unsure, renewedUntil: late > SLOW_RENEWAL ? Number.NaN : until, aliveUntil });
  }
  return { ...state, slots, renewing: null };
}

function log(level: 'info' | 'warn' | 'error', message: string, fields: object): LeaseEffect {
  const { kind: _, ...rest } = fields as { kind?: string };
  return { kind: 'log', level, message, fields: rest };
}
