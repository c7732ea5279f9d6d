import {
  type AddressSet,
  type CompiledPolicy,
  type CompiledRule,
  namedBy,
  type ServiceSet,
} from '../../apis/compiled.ts';
import { bodyDigest, toBody } from '../../apis/held-view.ts';
import type { AddressSetPatchUpdate, Update } from '../../apis/stream.ts';
import {
  type AddressSetMessage,
  addressSetMessage,
  serviceSetMessage,
  toWrittenRule,
} from '../../apis/wire.ts';
import { type Address, type Cidr, formatAddress, formatCidr, WIDTH } from '../../lib/net/address.ts';
import {
  diffMembers,
  type FamilyMembers,
  type MemberSet,
  memberTotal,
  sameMembers,
  unpackAddress,
} from '../../lib/net/member-set.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import type { ExtensionObject } from '../extension/extension.ts';

/** A rule group: the rules of one policy that apply to the same nodes. */
export interface RuleGroup {
  readonly span: Span;
  readonly content: GroupContent;
}

/** The same object as long as the rules are the same, whichever nodes they apply to. */
export interface GroupContent {
  /** The group's name. */
  readonly part: string;
  readonly rules: readonly CompiledRule[];
  /** Ids of the sets that the rules name, each once. */
  readonly addressSets: readonly string[];
  readonly serviceSets: readonly string[];
}

/**
 * A rule group before and after a change; null if it did not or does not exist. Spans or contents
 * differ.
 */
export interface RuleGroupChange {
  readonly before: RuleGroup | null;
  readonly now: RuleGroup | null;
}

/**
 * A policy's rule groups. A group is named after its first rule: so every controller names it the
 * same, and it keeps its name when a node is relabelled or another rule is edited.
 */
export function groupsOf(policy: CompiledPolicy, before: readonly RuleGroup[]): readonly RuleGroup[] {
  const groups = new Map<Span, CompiledRule[]>();
  for (const [i, rule] of policy.rules.entries()) {
    const span = policy.spans[i];
    if (span === undefined || span.size === 0) continue;
    const group = groups.get(span);
    if (group === undefined) groups.set(span, [rule]);
    else group.push(rule);
  }
  const was = new Map(before.map((group) => [group.content.part, group]));
  return [...groups].map(([span, rules]) => {
    const part = `${versionKey(policy)}/${rules[0]?.source.rule}`;
    const group = was.get(part);
    if (group === undefined || !sameItems(group.content.rules, rules))
      return { span, content: toContent(part, rules) };
    return group.span === span ? group : { span, content: group.content };
  });
}

/** Names a policy, or one version of it where nodes may have another one. */
export function versionKey({ apiGroup, name, version }: Omit<CompiledPolicy, 'rules' | 'spans'>): string {
  return version === undefined ? `${apiGroup}/${name}` : `${apiGroup}/${name}@${version}`;
}

function toContent(name: string, rules: readonly CompiledRule[]): GroupContent {
  const { addressSets, serviceSets } = namedBy(rules);
  return {
    part: name,
    rules,
    addressSets: [...new Set(addressSets)],
    serviceSets: [...new Set(serviceSets)],
  };
}

/** Rule groups are matched by name. */
export function diffGroups(before: readonly RuleGroup[], now: readonly RuleGroup[]): RuleGroupChange[] {
  const was = new Map(before.map((group) => [group.content.part, group]));
  const is = new Set(now.map((group) => group.content.part));
  return [
    ...now.flatMap((group) => {
      const old = was.get(group.content.part) ?? null;
      return old === group ? [] : [{ before: old, now: group }];
    }),
    ...before.filter((group) => !is.has(group.content.part)).map((group) => ({ before: group, now: null })),
  ];
}

/** Names of nodes. Immutable, so that spans can be compared by object identity first. */
export type Span = ReadonlySet<string>;

/** The receivers of a message: the nodes of any of these spans; null: every node. */
export type Audience = readonly Span[] | null;

export const NOBODY: Span = new Set();

/** Nodes that only one of two spans has. */
export interface SpanChange {
  readonly gained: Span;
  readonly lost: Span;
}

/** Compares spans; each pair once, however many rules it concerns. */
export function spanChanges(): (before: Span, now: Span) => SpanChange {
  const known = new Map<Span, Map<Span, SpanChange>>();
  return (before, now) => {
    const changes = known.get(before) ?? new Map<Span, SpanChange>();
    known.set(before, changes);
    const change = changes.get(now) ?? compare(before, now);
    changes.set(now, change);
    return change;
  };
}

function compare(before: Span, now: Span): SpanChange {
  if (before === now) return { gained: NOBODY, lost: NOBODY };
  if (before.size === 0) return { gained: now, lost: NOBODY };
  if (now.size === 0) return { gained: NOBODY, lost: before };
  return { gained: now.difference(before), lost: before.difference(now) };
}

/** The nodes of both spans; one of the spans itself if it is equal to that. */
export function keptOf(before: Span, now: Span, { gained, lost }: SpanChange): Span {
  if (lost.size === 0) return before;
  return gained.size === 0 ? now : before.difference(lost);
}

export function isFor(audience: Audience, node: string): boolean {
  return audience === null || audience.some((span) => span.has(node));
}

/** A message as all watchers get it: only the sequence number in its prefix differs. */
export interface Line {
  /** The controller's position after this message. */
  readonly revision: string;
  /** The line from `"type"` on, with its line feed. Shared by all watchers: never changed. */
  readonly body: Buffer;
  /** Only for watchers that know it; absent: for all. */
  readonly feature?: 'egress';
}

/** The prefix of the body. `sequence` counts from 1 in each stream. */
export function linePrefix(sequence: number, { revision }: Line): string {
  return `{"sequence":${sequence},"revision":"${revision}",`;
}

/**
 * Serialised messages. Each JavaScript object is serialised once, on first use, and cached as long
 * as it is referenced.
 */
export interface Bodies {
  addressSet(set: AddressSet): Buffer;
  serviceSet(set: ServiceSet): Buffer;
  rules(content: GroupContent): Buffer;
  /** Cached if many nodes have it in common. */
  extension(object: ExtensionObject): Buffer;
  /** Not cached. */
  once(update: Update): Buffer;
  /** The digest of one of the bodies above, as in a HeldView. */
  digest(body: Buffer): string;
}

export function messageBodies(): Bodies {
  const known = new WeakMap<object, Buffer>();
  const digests = new WeakMap<Buffer, string>();
  const kept = (of: object, toUpdate: () => Update): Buffer => {
    const body = known.get(of) ?? toBody(toUpdate());
    known.set(of, body);
    return body;
  };
  return {
    addressSet: (set) => kept(set, () => addressSetMessage(set)),
    serviceSet: (set) => kept(set, () => serviceSetMessage(set)),
    rules: (content) =>
      kept(content, () => {
        return { type: 'rules', part: content.part, rules: content.rules.map(toWrittenRule) };
      }),
    extension: ({ isShared, of, toMessage }) => (isShared ? kept(of, toMessage) : toBody(toMessage())),
    once: toBody,
    digest(body) {
      const digest = digests.get(body) ?? bodyDigest(body);
      digests.set(body, digest);
      return digest;
    },
  };
}

/**
 * The message that changes `before` to `now`: the added and removed members, or the whole set if
 * that is shorter or another field changed. Null if they are equal. The cost is that of the change,
 * not of the members.
 */
export function addressSetUpdate(
  before: AddressSet,
  now: AddressSet,
): AddressSetPatchUpdate | AddressSetMessage | null {
  if (!sameDescription(before, now)) return addressSetMessage(now);
  const { add, remove } = memberDifference(before.members, now.members);
  if (add.length + remove.length === 0) return null;
  const size = memberTotal(now.members);
  if (add.length + remove.length > size) return addressSetMessage(now);
  return {
    type: 'addressSetPatch',
    id: now.id,
    ...(add.length === 0 ? {} : { add }),
    ...(remove.length === 0 ? {} : { remove }),
  };
}

/** The added and removed members; a family without a change costs nothing. */
export function memberDifference(
  before: MemberSet,
  now: MemberSet,
): { readonly add: readonly string[]; readonly remove: readonly string[] } {
  const add: string[] = [];
  const remove: string[] = [];
  for (const family of ['v4', 'v6'] as const) {
    if (!sameMembers(before[family], now[family])) diffFamily(before[family], now[family], add, remove);
  }
  return { add, remove };
}

function sameDescription(a: AddressSet, b: AddressSet): boolean {
  return (
    a.id === b.id && a.description === b.description && a.dynamic === b.dynamic && sameItems(a.names, b.names)
  );
}

function diffFamily(was: FamilyMembers, is: FamilyMembers, add: string[], remove: string[]): void {
  const { family } = is;
  const { added, removed } = diffMembers(was, is);
  add.push(...singlesText(family, added), ...prefixesOnlyIn(is.prefixes, was.prefixes));
  remove.push(...singlesText(family, removed), ...prefixesOnlyIn(was.prefixes, is.prefixes));
}

function* singlesText(family: Address['family'], packed: Uint8Array): Iterable<string> {
  for (let at = 0; at < packed.length; at += WIDTH[family])
    yield formatAddress(unpackAddress(family, packed, at));
}

function prefixesOnlyIn(these: readonly Cidr[], others: readonly Cidr[]): string[] {
  if (these === others || these.length === 0) return [];
  const known = new Set(others.map(formatCidr));
  return these.map(formatCidr).filter((text) => !known.has(text));
}
