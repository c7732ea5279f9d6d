import type { AddressSet, Compiled, CompiledPolicy, ServiceSet } from '../../apis/compiled.ts';
import { nodeMessage } from '../../apis/wire.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import { listChange, sameItems } from '../../lib/sharing/lists.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import { VIEW_EXTENSION } from '../extension/view.ts';
import {
  type Audience,
  addressSetUpdate,
  type Bodies,
  diffGroups,
  type GroupContent,
  groupsOf,
  keptOf,
  type Line,
  NOBODY,
  type RuleGroup,
  type RuleGroupChange,
  type Span,
  type SpanChange,
  spanChanges,
  versionKey,
} from './messages.ts';
import { type SetToNodesChange, type SetToNodesIndex, setToNodesIndex } from './set-to-nodes-index.ts';

/** The numbers of rules and sets of a node. */
export interface NodeCounts {
  readonly rules: number;
  readonly addressSets: number;
  readonly serviceSets: number;
}

/** A pending message, its audience, and its change to the counts of each node in it. */
export interface PendingMessage {
  /** Called when the message is sent: messages of the first state are never sent. */
  readonly toBody: () => Buffer;
  readonly audience: Audience;
  readonly counts: NodeCounts;
  readonly feature?: Line['feature'];
}

/**
 * One state of everything compiled, as published to nodes. The next state changes the maps in
 * place.
 */
export interface PublishedState {
  readonly compiled: Compiled;
  /** By the policy, or its version. */
  readonly ruleGroups: Map<string, readonly RuleGroup[]>;
  /** By the nodes that they apply to, then by name. */
  readonly bySpan: Map<Span, Map<string, GroupContent>>;
  readonly addressSets: SetToNodesIndex;
  readonly serviceSets: SetToNodesIndex;
}

const NONE: NodeCounts = { rules: 0, addressSets: 0, serviceSets: 0 };

export function nothingPublished({ allNodes, controllers, apiServerPorts }: Compiled): PublishedState {
  return {
    compiled: {
      policies: [],
      addressSets: new Map(),
      serviceSets: new Map(),
      leftOutEndpoints: new Map(),
      allNodes,
      controllers,
      apiServerPorts,
      nodeAddresses: new Map(),
    },
    ruleGroups: new Map(),
    bySpan: new Map(),
    addressSets: setToNodesIndex((content) => content.addressSets),
    serviceSets: setToNodesIndex((content) => content.serviceSets),
  };
}

/**
 * The messages that lead from `published` to `compiled`, in order: sets before the rules that name
 * them, removals after. `allNodes`, `controllers` and `apiServerPorts` must be the same in both.
 * The same JavaScript objects count as unchanged; the cost is that of the others, and a pass over
 * policies, sets and nodes if their lists differ. Throws if a rule names a set that doesn't exist.
 *
 * @param extended the messages of an extension: `extensionMessages`
 */
export function changeMessages(
  published: PublishedState,
  compiled: Compiled,
  bodies: Bodies,
  extended: readonly PendingMessage[] = [],
): { readonly messages: readonly PendingMessage[]; readonly published: PublishedState } {
  const groupChanges = changeRuleGroups(published, compiled.policies);
  const changeOf = spanChanges();
  const { allNodes, controllers } = compiled;
  const address = setMessages(compiled.addressSets, published.addressSets.change(groupChanges, changeOf), {
    index: published.addressSets,
    map: published.compiled.addressSets,
    everyone: new Set([allNodes, controllers]),
    whole: bodies.addressSet,
    update(before, now) {
      const update = addressSetUpdate(before, now);
      if (update === null) return null;
      return () => (update.type === 'addressSet' ? bodies.addressSet(now) : bodies.once(update));
    },
    removed: (id) => bodies.once({ type: 'addressSetRemoved', id }),
    one: { ...NONE, addressSets: 1 },
  });
  const service = setMessages(compiled.serviceSets, published.serviceSets.change(groupChanges, changeOf), {
    index: published.serviceSets,
    map: published.compiled.serviceSets,
    everyone: new Set(),
    whole: bodies.serviceSet,
    update: (_, now) => () => bodies.serviceSet(now),
    removed: (id) => bodies.once({ type: 'serviceSetRemoved', id }),
    one: { ...NONE, serviceSets: 1 },
  });
  const rules = ruleMessages(groupChanges, changeOf, bodies);
  const messages = [
    nodeMessages(published.compiled, compiled, bodies),
    address.added,
    service.added,
    rules.added,
    rules.removed,
    address.removed,
    service.removed,
    extended,
  ];
  const received = messages.flat().filter(({ audience }) => audience?.some((span) => span.size > 0) ?? true);
  return { messages: received, published: { ...published, compiled } };
}

/** Updates `ruleGroups` and `bySpan`, and returns the changes. */
function changeRuleGroups(state: PublishedState, policies: readonly CompiledPolicy[]): RuleGroupChange[] {
  const { removed, added } = listChange(state.compiled.policies, policies);
  const now = new Map(added.map((policy) => [versionKey(policy), policy]));
  const result: RuleGroupChange[] = [];
  for (const name of new Set([...removed.map(versionKey), ...now.keys()])) {
    const before = state.ruleGroups.get(name) ?? [];
    const policy = now.get(name);
    const groups = policy === undefined ? [] : groupsOf(policy, before);
    if (groups.length === 0) state.ruleGroups.delete(name);
    else state.ruleGroups.set(name, groups);
    result.push(...diffGroups(before, groups));
  }
  for (const { before } of result) {
    if (before === null) continue;
    const same = state.bySpan.get(before.span);
    same?.delete(before.content.part);
    if (same?.size === 0) state.bySpan.delete(before.span);
  }
  for (const { now: group } of result) {
    if (group === null) continue;
    const same = state.bySpan.get(group.span);
    if (same === undefined) state.bySpan.set(group.span, new Map([[group.content.part, group.content]]));
    else same.set(group.content.part, group.content);
  }
  return result;
}

function nodeMessages(before: Compiled, now: Compiled, bodies: Bodies): PendingMessage[] {
  if (before.nodeAddresses === now.nodeAddresses) return [];
  const messages: PendingMessage[] = [];
  const say = (node: string, addresses: readonly string[]): void => {
    const toBody = () => bodies.once(nodeMessage({ ...now, node, nodeAddresses: addresses }));
    messages.push({ toBody, audience: [new Set([node])], counts: NONE });
  };
  for (const [node, addresses] of now.nodeAddresses) {
    const were = before.nodeAddresses.get(node);
    if (were === addresses || sameItems(were ?? [], addresses)) continue;
    say(node, addresses);
  }
  for (const [node, were] of before.nodeAddresses) {
    if (!now.nodeAddresses.has(node) && were.length > 0) say(node, []);
  }
  return messages;
}

/** With their bodies. A change of the gate is none of these: it restarts all watchers. */
export function* extensionMessages(
  before: Compiled,
  now: Compiled,
  bodies: Bodies,
): Stepwise<readonly PendingMessage[]> {
  const messages: PendingMessage[] = [];
  for (const { toUpdate, nodes } of yield* VIEW_EXTENSION.changes(before, now)) {
    yield;
    const body = bodies.once(toUpdate());
    messages.push({ toBody: () => body, audience: [nodes], counts: NONE, feature: 'egress' });
  }
  return messages;
}

interface SetKind<T> {
  readonly index: SetToNodesIndex;
  readonly map: ReadonlyMap<string, T>;
  /** Ids of the sets that every node has, even if no rule names them. */
  readonly everyone: ReadonlySet<string>;
  whole(set: T): Buffer;
  /** The message that changes one to the other; null if there is nothing to send. */
  update(before: T, now: T): (() => Buffer) | null;
  removed(id: string): Buffer;
  /** The counts of one set. */
  readonly one: NodeCounts;
}

function setMessages<T extends AddressSet | ServiceSet>(
  sets: ReadonlyMap<string, T>,
  changed: ReadonlyMap<string, SetToNodesChange>,
  kind: SetKind<T>,
): { added: PendingMessage[]; removed: PendingMessage[] } {
  const added: PendingMessage[] = [];
  const removed: PendingMessage[] = [];
  const minus = negative(kind.one);
  const ids = new Set(changed.keys());
  for (const id of changedIds(kind.map, sets)) ids.add(id);
  for (const id of [...ids].sort()) {
    const [before, now] = [kind.map.get(id), sets.get(id)];
    const isEveryones = kind.everyone.has(id);
    const of = isEveryones
      ? null
      : (changed.get(id) ?? { kept: kind.index.spansOf(id), gained: [], lost: [] });
    if (now === undefined && (isEveryones || kind.index.spansOf(id).length > 0))
      throw new Error(`unknown set ${id}`);
    if (now !== undefined && before !== undefined && now !== before) {
      const toBody = of === null || of.kept.length > 0 ? kind.update(before, now) : null;
      if (toBody !== null) added.push({ toBody, audience: of?.kept ?? null, counts: NONE });
    }
    if (of === null || (of.gained.length === 0 && of.lost.length === 0)) continue;
    if (now !== undefined && of.gained.length > 0)
      added.push({ toBody: () => kind.whole(now), audience: of.gained, counts: kind.one });
    if (of.lost.length > 0)
      removed.push({ toBody: () => kind.removed(id), audience: of.lost, counts: minus });
  }
  return { added, removed };
}

function ruleMessages(
  groupChanges: readonly RuleGroupChange[],
  changeOf: (before: Span, now: Span) => SpanChange,
  bodies: Bodies,
): { added: PendingMessage[]; removed: PendingMessage[] } {
  const added: PendingMessage[] = [];
  const removed: PendingMessage[] = [];
  for (const { before, now } of groupChanges) {
    const [was, is] = [before?.span ?? NOBODY, now?.span ?? NOBODY];
    const { gained, lost } = changeOf(was, is);
    const length = before?.content.rules.length ?? 0;
    if (before !== null && lost.size > 0) {
      const { part } = before.content;
      const toBody = () => bodies.once({ type: 'rulesRemoved', part });
      removed.push({ toBody, audience: [lost], counts: { ...NONE, rules: -length } });
    }
    if (now === null) continue;
    const { rules } = now.content;
    const toBody = () => bodies.rules(now.content);
    if (before !== null && before.content !== now.content) {
      const kept = keptOf(was, is, { gained, lost });
      added.push({ toBody, audience: [kept], counts: { ...NONE, rules: rules.length - length } });
    }
    if (gained.size > 0) {
      added.push({ toBody, audience: [gained], counts: { ...NONE, rules: rules.length } });
    }
  }
  return { added, removed };
}

function negative({ rules, addressSets, serviceSets }: NodeCounts): NodeCounts {
  return { rules: -rules, addressSets: -addressSets, serviceSets: -serviceSets };
}
