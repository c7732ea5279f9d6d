import { isIP } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import {
  type AddressSet,
  type CompiledRule,
  emptyNodeState,
  type NodeState,
  namedBy,
  type ServiceSet,
} from '../../apis/compiled.ts';
import { type HeldView, HeldViews } from '../../apis/held-view.ts';
import { compareRules } from '../../apis/order.ts';
import {
  type BookmarkUpdate,
  type Endpoints,
  type GateValue,
  type RulesUpdate,
  type StreamMessage,
  toEndpoints,
  type Update,
} from '../../apis/stream.ts';
import { type NodeMessage, nodeMessage, toCompiledRule, type WrittenRule } from '../../apis/wire.ts';
import { sameMembers } from '../../lib/net/member-set.ts';
import { sharesKeys } from '../../lib/sharing/changed-map.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import type { ExtensionDraft } from '../extension/extension.ts';
import { MESSAGE_EXTENSION } from '../extension/messages.ts';
import { type DraftMap, draftMap, patchedMembers } from './patch.ts';
import { failsafeSets, toAddressSet, toServiceSet } from './receive.ts';

/** The controller's view of this node, as of a bookmark. */
export interface Folded {
  readonly state: NodeState;
  /** The cluster's feature gate. */
  readonly enabled: GateValue;
  /** If it is off: nodes follow one by one over this time (seconds). Absent: at once. */
  readonly over?: number;
  /** The API server's endpoints. */
  readonly endpoints: readonly Endpoints[];
  /** The bookmark's revision; a later connection resumes from it. */
  readonly revision: string;
}

/** A message can't be applied. The state of the last bookmark stays valid. */
export class FoldError extends Error {
  override readonly name = 'FoldError';
  /** Whether resuming from the last bookmark is enough; otherwise a whole view is needed. */
  readonly resumable: boolean;

  constructor(message: string, resumable: boolean, options?: ErrorOptions) {
    super(message, options);
    this.resumable = resumable;
  }
}

export interface Fold {
  /**
   * Starts a connection: messages since the last bookmark are discarded. Without `resumed` a whole
   * view is expected.
   */
  begin(resumed: boolean): void;
  /**
   * Applies a message. Returns the new state at a bookmark, else null. Throws FoldError; `begin`
   * must be called after that.
   */
  receive(message: StreamMessage): Folded | null;
  /** The view as of the last bookmark; null before the first. */
  current(): HeldView | null;
}

/**
 * Stage 4, for one node: folds the messages of successive connections to states. Unchanged values
 * are the same objects, also after a whole view and compared to `before`, so a restarted controller
 * causes no changes. Cost at a bookmark: proportional to the changes; if rules or set ids changed,
 * also one pass over the rest.
 */
export function fold(node: string, before: NodeState | null = null): Fold {
  const earlier =
    before === null ? NOTHING_RECEIVED : { ...NOTHING_RECEIVED, state: before, rules: byId(before.rules) };
  let current: Held = earlier;
  let waiting: Update[] = [];
  let sequence = 0;
  const views = new HeldViews();

  function bookmark(update: BookmarkUpdate, revision: string): Folded {
    const isWhole = waiting[0]?.type === 'reset';
    if (isWhole && update.initial !== true) throw broken('a bookmark inside a full view');
    if (!isWhole && current === earlier) throw broken('changes without a full view before them');
    current = advance(node, current, waiting, update);
    waiting = [];
    const { state, enabled, over, endpoints } = current;
    return { state, enabled: enabled ?? 'unset', ...(over === 0 ? {} : { over }), endpoints, revision };
  }

  return {
    begin(resumed) {
      waiting = resumed && current !== earlier ? [] : [{ type: 'reset' }];
      sequence = 0;
    },
    receive(message) {
      if (typeof message !== 'object' || message === null) throw lost('not an object');
      if (message.sequence !== sequence + 1) {
        throw lost(`expected message ${sequence + 1}, received ${message.sequence}`);
      }
      sequence++;
      if (typeof message.revision !== 'string') throw broken('a message has no revision');
      if (message.type === 'bookmark') {
        try {
          return bookmark(message, message.revision);
        } catch (error) {
          throw error instanceof FoldError ? error : broken((error as Error).message, error);
        }
      }
      if (message.type === 'probe' || message.type === 'question') return null;
      if (message.type === 'reset') waiting = [];
      waiting.push(message);
      return null;
    },
    current() {
      if (current === earlier) return null;
      const { state, parts } = current;
      const sets = { addressSets: state.addressSets.values(), serviceSets: state.serviceSets.values() };
      return views.of(sets, parts, state.egress);
    },
  };
}

function lost(what: string): FoldError {
  return new FoldError(`the stream is incomplete: ${what}`, true);
}

function broken(what: string, cause?: unknown): FoldError {
  return new FoldError(`cannot apply the controller's view: ${what}`, false, { cause });
}

type Rules = ReadonlyMap<string, CompiledRule>;

/** The current state as of a bookmark. */
interface Held {
  readonly state: NodeState;
  /** By id; rules received again are compared with these. */
  readonly rules: Rules;
  readonly parts: ReadonlyMap<string, readonly CompiledRule[]>;
  /** Null before the first view. */
  readonly enabled: GateValue | null;
  /** Seconds; 0: at once. */
  readonly over: number;
  readonly endpoints: readonly Endpoints[];
}

const NOTHING_RECEIVED: Held = {
  state: emptyNodeState(''),
  rules: new Map(),
  parts: new Map(),
  enabled: null,
  over: 0,
  endpoints: [],
};

/** A mutable copy of the current state; values are copied only when messages change them. */
interface Draft {
  node: NodeMessage | null;
  enabled: GateValue | null;
  over: number;
  endpoints: readonly Endpoints[];
  readonly addressSets: DraftMap<AddressSet>;
  readonly serviceSets: DraftMap<ServiceSet>;
  readonly parts: DraftMap<readonly CompiledRule[]>;
  readonly extension: ExtensionDraft;
}

/** Applies the messages up to a bookmark. Throws an Error for a message that can't be applied. */
function advance(node: string, held: Held, updates: readonly Update[], bookmark: BookmarkUpdate): Held {
  const isWhole = updates[0]?.type === 'reset';
  const { state } = held;
  const base = isWhole ? NOTHING_RECEIVED : held;
  const draft: Draft = {
    node: isWhole ? null : nodeMessage({ ...state, node }),
    enabled: base.enabled,
    over: base.over,
    endpoints: base.endpoints,
    addressSets: draftMap(base.state.addressSets),
    serviceSets: draftMap(base.state.serviceSets),
    parts: draftMap(base.parts),
    extension: MESSAGE_EXTENSION.draft(state, isWhole),
  };
  for (const update of updates) change(draft, update, held);
  if (draft.node === null) throw new Error('the view does not name its node');
  if (draft.node.node !== node) throw new Error(`the view is of node ${draft.node.node}`);
  if (draft.enabled === null) throw new Error('the view does not contain the feature gate');
  const parts = draft.parts.map();
  const rules = parts === base.parts ? base.state.rules : orderedRules(base.state.rules, base.parts, parts);
  const { addresses, allNodes, controllers = '', apiServerPorts = [] } = draft.node;
  const next: NodeState = {
    node,
    rules: sameItems(rules, state.rules) ? state.rules : rules,
    addressSets: sortedLike(draft.addressSets.map(), state.addressSets),
    serviceSets: sortedLike(draft.serviceSets.map(), state.serviceSets),
    allNodes,
    controllers,
    apiServerPorts: sameItems(apiServerPorts, state.apiServerPorts) ? state.apiServerPorts : apiServerPorts,
    nodeAddresses: sameItems(addresses, state.nodeAddresses) ? state.nodeAddresses : addresses,
    ...draft.extension.result(),
  };
  checkCounts(next, bookmark);
  checkHeld(next, state);
  const ids = next.rules === state.rules ? held.rules : byId(next.rules);
  if (ids.size !== next.rules.length) throw new Error('the view contains a rule twice');
  return {
    state: isDifferent(next, state) ? next : state,
    rules: ids,
    parts,
    enabled: draft.enabled,
    over: draft.over,
    endpoints: like(draft.endpoints, held.endpoints),
  };
}

function checkedOver(over: unknown = 0): number {
  if (typeof over === 'number' && over >= 0 && Number.isFinite(over)) return over;
  throw new Error('the time over which nodes switch off is not valid');
}

function change(draft: Draft, update: Update, held: Held): void {
  const { addressSets, serviceSets, parts } = draft;
  switch (update.type) {
    case 'reset':
      return;
    case 'gate':
      // A gate that is off removes the table: only an explicit false may do that.
      if (typeof update.enabled !== 'boolean' && update.enabled !== 'unset')
        throw new Error('the feature gate is neither true nor false');
      draft.enabled = update.enabled;
      draft.over = checkedOver(update.over);
      return;
    case 'endpoints':
      draft.endpoints = checkedEndpoints(toEndpoints(update));
      return;
    case 'node':
      if (!(update.apiServerPorts ?? []).every(isPort))
        throw new Error('the ports of the API server are not valid');
      draft.node = update;
      return;
    case 'addressSet':
      addressSets.set(update.id, likeAddressSet(toAddressSet(update), held.state.addressSets.get(update.id)));
      return;
    case 'addressSetPatch': {
      const set = addressSets.get(update.id);
      if (set === undefined) throw new Error(`a patch of unknown AddressSet ${update.id}`);
      const patched = { ...set, members: patchedMembers(set, update) };
      addressSets.set(update.id, likeAddressSet(patched, held.state.addressSets.get(update.id)));
      return;
    }
    case 'addressSetRemoved':
      addressSets.delete(update.id);
      return;
    case 'serviceSet':
      serviceSets.set(update.id, like(toServiceSet(update), held.state.serviceSets.get(update.id)));
      return;
    case 'serviceSetRemoved':
      serviceSets.delete(update.id);
      return;
    case 'rules':
      parts.set(update.part, toRules(update, held.rules));
      return;
    case 'rulesRemoved':
      parts.delete(update.part);
      return;
    case 'bookmark':
      throw new Error('a bookmark inside a batch');
    default:
      if (draft.extension.receive(update)) return;
      // A newer controller may send types that this version's TypeScript types don't have.
      throw new Error(
        `message of type ${JSON.stringify((update as { type: unknown }).type)}; is the controller newer than this agent?`,
      );
  }
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port > 0 && port < 65_536;
}

function checkedEndpoints(endpoints: readonly Endpoints[]): readonly Endpoints[] {
  for (const { port, addresses } of endpoints) {
    if (!isPort(port) || !addresses.every((address) => isIP(address) !== 0))
      throw new Error("the controllers' endpoints are not valid");
  }
  // A newer controller may know further protocols.
  return endpoints.filter(({ protocol }) => protocol === undefined || protocol === 'udp');
}

function toRules({ part, rules }: RulesUpdate, known: Rules): readonly CompiledRule[] {
  return rules.map((written) => {
    if (!isPlaced(written)) throw new Error(`part ${part} contains an invalid rule`);
    return like(toCompiledRule(written), known.get(written.id));
  });
}

/**
 * Whether a rule has the fields that ordering, identity and sets need. Any other mistake in a rule
 * is reported by the renderer, for its policy only.
 */
function isPlaced(rule: WrittenRule): boolean {
  const { id, source, tierPriority, priority, addressSets, interfaceGroups = [], serviceSets = [] } = rule;
  const texts = [id, source?.apiGroup, source?.policy, source?.rule, source?.direction];
  const numbers = [tierPriority, priority, source?.ruleIndex, source?.generation];
  return (
    texts.every((text) => typeof text === 'string') &&
    numbers.every((number) => typeof number === 'number') &&
    [addressSets, interfaceGroups, serviceSets].every(Array.isArray)
  );
}

function like<T>(value: T, before: T | undefined): T {
  return before !== undefined && isDeepStrictEqual(value, before) ? before : value;
}

/**
 * Returns the previous set if it is equal; else reuses the members of each family that is equal.
 */
function likeAddressSet(set: AddressSet, before: AddressSet | undefined): AddressSet {
  if (before === undefined) return set;
  const v4 = sameMembers(set.members.v4, before.members.v4) ? before.members.v4 : set.members.v4;
  const v6 = sameMembers(set.members.v6, before.members.v6) ? before.members.v6 : set.members.v6;
  if (v4 !== before.members.v4 || v6 !== before.members.v6) return { ...set, members: { v4, v6 } };
  return like({ ...set, members: before.members }, before);
}

/**
 * The rules of all parts in evaluation order. Rules of unchanged parts are already in `ordered`.
 */
function orderedRules(
  ordered: readonly CompiledRule[],
  before: ReadonlyMap<string, readonly CompiledRule[]>,
  parts: ReadonlyMap<string, readonly CompiledRule[]>,
): readonly CompiledRule[] {
  const added = new Set<CompiledRule>();
  const ids = new Set<string>();
  for (const [part, rules] of parts) {
    if (before.get(part) === rules) continue;
    for (const rule of rules) {
      if (ids.has(rule.id)) throw new Error(`the view contains rule ${rule.id} twice`);
      ids.add(rule.id);
      added.add(rule);
    }
  }
  const gone = new Set<CompiledRule>();
  for (const [part, rules] of before) {
    if (parts.get(part) !== rules) for (const rule of rules) if (!added.delete(rule)) gone.add(rule);
  }
  const kept = ordered.filter((rule) => !gone.has(rule));
  return merged(kept, [...added].sort(compareRules));
}

/** Merges two sorted lists. Throws if two rules have the same position. */
function merged(a: readonly CompiledRule[], b: readonly CompiledRule[]): readonly CompiledRule[] {
  if (b.length === 0) return a;
  const rules: CompiledRule[] = [];
  let next = 0;
  for (const rule of a) {
    for (let other = b[next]; other !== undefined; other = b[next]) {
      const order = compareRules(other, rule);
      if (order === 0) throw new Error(`two rules in the place of ${rule.source.policy}/${rule.source.rule}`);
      if (order > 0) break;
      rules.push(other);
      next++;
    }
    rules.push(rule);
  }
  for (; next < b.length; next++) rules.push(b[next] as CompiledRule);
  return rules;
}

function checkCounts(state: NodeState, bookmark: BookmarkUpdate): void {
  const counts = [
    ['rules', state.rules.length, bookmark.rules],
    ['AddressSets', state.addressSets.size, bookmark.addressSets],
    ['ServiceSets', state.serviceSets.size, bookmark.serviceSets],
  ] as const;
  for (const [what, here, there] of counts) {
    if (here !== there) throw new Error(`the agent has ${here} ${what}, the controller says ${there}`);
  }
  const lack = MESSAGE_EXTENSION.lack(bookmark, state);
  if (lack !== null) throw new Error(lack);
}

/** Throws if a named set is missing. Does nothing if neither the names nor the set ids changed. */
function checkHeld(state: NodeState, before: NodeState): void {
  const { rules, allNodes, controllers, addressSets, serviceSets } = state;
  const isSame =
    rules === before.rules &&
    allNodes === before.allNodes &&
    controllers === before.controllers &&
    sameKeys(addressSets, before.addressSets) &&
    sameKeys(serviceSets, before.serviceSets);
  if (isSame) return;
  const named = namedBy(rules);
  const missing =
    failsafeSets(state)
      .concat(named.addressSets)
      .find((id) => !addressSets.has(id)) ?? named.serviceSets.find((id) => !serviceSets.has(id));
  if (missing !== undefined)
    throw new Error(`a rule refers to set ${missing}, which the view does not contain`);
}

function isDifferent(a: NodeState, b: NodeState): boolean {
  const keys = Object.keys({ ...a, ...b }) as (keyof NodeState)[];
  return keys.some((key) => a[key] !== b[key]);
}

function byId(rules: readonly CompiledRule[]): Rules {
  return new Map(rules.map((rule) => [rule.id, rule]));
}

function sameKeys(a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): boolean {
  if (sharesKeys(a, b)) return true;
  if (a.size !== b.size) return false;
  for (const key of a.keys()) if (!b.has(key)) return false;
  return true;
}

/** Sorted by key; returns the previous map if it holds the same objects in that order. */
function sortedLike<T>(now: ReadonlyMap<string, T>, before: ReadonlyMap<string, T>): ReadonlyMap<string, T> {
  if (sharesKeys(now, before)) return now;
  const ordered = sorted(now);
  if (ordered.size !== before.size) return ordered;
  const entries = before.entries();
  for (const [key, value] of ordered) {
    const [other, was] = entries.next().value ?? [];
    if (other !== key || was !== value) return ordered;
  }
  return before;
}

function sorted<T>(map: ReadonlyMap<string, T>): ReadonlyMap<string, T> {
  return new Map([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
}
