import type { Compiled } from '../../apis/compiled.ts';
import { HELD_KINDS, type HeldKind, type HeldView } from '../../apis/held-view.ts';
import { type Endpoints, type GateUpdate, toWrittenEndpoints, type Update } from '../../apis/stream.ts';
import { nodeMessage } from '../../apis/wire.ts';
import { VIEW_EXTENSION } from '../extension/view.ts';
import type { NodeCounts, PublishedState } from './changes.ts';
import type { Bodies, GroupContent, Line, Span } from './messages.ts';

/** The objects that are published at one position. */
export interface Present {
  readonly compiled: Compiled;
  /** The shared part of a node's view. */
  readonly viewOf: (node: string) => SharedView;
  readonly gate: GateUpdate;
  /** The gate EgressGateway has no value: nodes keep what they steer. */
  readonly isEgressUnset: boolean;
  /** The API server's; empty: none are known. */
  readonly endpoints: readonly Endpoints[];
  /** As in bookmarks. */
  readonly revision: string;
  /** As in lines besides bookmarks: nobody resumes from there. */
  readonly number: string;
}

/**
 * The lines that bring one watcher to the present view, whatever it was sent before: the whole
 * view, or the differences from one that it holds.
 */
export class ViewLines {
  readonly #now: Present;
  readonly #bodies: Bodies;

  constructor(now: Present, bodies: Bodies) {
    this.#now = now;
    this.#bodies = bodies;
  }

  /** Ends with a bookmark. */
  whole(receiver: Receiver): readonly Line[] {
    const { viewOf, compiled, revision } = this.#now;
    const view = viewOf(receiver.node);
    const counts = bookmarkCounts(view.counts, receiver, compiled);
    return [
      this.#line({ type: 'reset' }),
      ...this.#ownLines(receiver, true),
      ...view.objects().map(({ line }) => line),
      ...this.#extensionLines(receiver, {}),
      { revision, body: this.#bodies.once({ type: 'bookmark', initial: true, ...counts }) },
    ];
  }

  /** The messages that change a held view to the present one, without a bookmark. */
  differences(receiver: Receiver, held: HeldView): readonly Line[] {
    const view = this.#now.viewOf(receiver.node);
    const isHeld = ({ kind, id, line }: ViewObject): boolean =>
      Object.hasOwn(held[kind], id) && held[kind][id] === this.#bodies.digest(line.body);
    const removed = HELD_KINDS.toReversed().flatMap((kind) =>
      Object.keys(held[kind]).flatMap((id) => (view.has(kind, id) ? [] : [removalOf(kind, id)])),
    );
    return [
      ...this.#ownLines(receiver, false),
      ...view
        .objects()
        .filter((one) => !isHeld(one))
        .map(({ line }) => line),
      ...removed.map((update) => this.#line(update)),
      ...this.#extensionLines(receiver, held.egress ?? {}),
    ];
  }

  /** The messages of a view besides sets and rules. */
  #ownLines({ node }: Receiver, isWhole: boolean): readonly Line[] {
    const { compiled, gate, endpoints } = this.#now;
    const nodeAddresses = compiled.nodeAddresses.get(node) ?? [];
    const updates: readonly Update[] = [
      gate,
      ...(isWhole && endpoints.length === 0
        ? []
        : [{ type: 'endpoints', ...toWrittenEndpoints(endpoints) } as const]),
      nodeMessage({ ...compiled, node, nodeAddresses }),
    ];
    return updates.map((update) => this.#line(update));
  }

  /**
   * The messages of an extension to a watcher that holds objects with these digests. A watcher
   * that knows them may hold an earlier state, so that it is told too that there are none.
   * Nothing while the gate has no value: then the earlier state stays.
   */
  #extensionLines({ node, hasEgress }: Receiver, held: Readonly<Record<string, string>>): Line[] {
    if (!hasEgress) return [];
    const { compiled, isEgressUnset } = this.#now;
    const whole = VIEW_EXTENSION.whole(compiled, node);
    if (whole === null) return isEgressUnset ? [] : [this.#line(VIEW_EXTENSION.removed)];
    const lines = [this.#line(whole.first)];
    const ids = new Set<string>();
    for (const object of whole.objects) {
      ids.add(object.id);
      const body = this.#bodies.extension(object);
      if (held[object.id] !== this.#bodies.digest(body)) lines.push({ revision: this.#now.number, body });
    }
    for (const id of Object.keys(held)) {
      const empty = ids.has(id) ? null : VIEW_EXTENSION.empty(id);
      if (empty !== null) lines.push(this.#line(empty));
    }
    return lines;
  }

  #line(update: Update): Line {
    return { revision: this.#now.number, body: this.#bodies.once(update) };
  }
}

function removalOf(kind: HeldKind, id: string): Update {
  switch (kind) {
    case 'addressSets':
      return { type: 'addressSetRemoved', id };
    case 'serviceSets':
      return { type: 'serviceSetRemoved', id };
    case 'rules':
      return { type: 'rulesRemoved', part: id };
  }
}

/** A watcher, as far as the lines that it receives depend on it. */
export interface Receiver {
  readonly node: string;
  /** Whether it knows the messages of egress gateways. */
  readonly hasEgress: boolean;
}

/** A bookmark's number of objects, for the receiver to compare. */
interface BookmarkCounts extends NodeCounts {
  /** Absent: the receiver has nothing of egress gateways. */
  readonly egress?: number;
}

/** The counts of a view, with those of egress gateways. */
export function bookmarkCounts(
  counts: NodeCounts,
  { node, hasEgress }: Receiver,
  compiled: Compiled | undefined,
): BookmarkCounts {
  return hasEgress && compiled !== undefined
    ? { ...counts, ...VIEW_EXTENSION.count(compiled, node) }
    : counts;
}

/** The bookmarks at one revision: one line for all receivers with the same counts. */
export class Bookmarks {
  readonly #revision: string;
  readonly #lines = new Map<string, Line>();

  constructor(revision: string) {
    this.#revision = revision;
  }

  line(counts: BookmarkCounts): Line {
    const body = JSON.stringify({ type: 'bookmark', ...counts });
    const line = this.#lines.get(body) ?? {
      revision: this.#revision,
      body: Buffer.from(`${body.slice(1)}\n`),
    };
    this.#lines.set(body, line);
    return line;
  }
}

/** A set or a rule group of a view. */
interface ViewObject {
  readonly kind: HeldKind;
  /** The id of a set, the name of a rule group. */
  readonly id: string;
  readonly line: Line;
}

/** The part of a node's view that is not specific to the node. */
export interface SharedView {
  readonly counts: NodeCounts;
  /** Sets sorted by id, then rules by rule group. Shared by all nodes with the same view. */
  objects(): readonly ViewObject[];
  has(kind: HeldKind, id: string): boolean;
}

/**
 * The views of nodes at one position. Nodes with the same spans share one result: a cluster has as
 * many as it has kinds of nodes, and thousands of watchers that connect at the same time get the
 * same list of the same buffers.
 */
export function viewsAt(
  state: PublishedState,
  bodies: Bodies,
  revision: string,
): (node: string) => SharedView {
  const known = new Map<string, SharedView>();
  const spans = [...state.bySpan.keys()];
  return (node) => {
    const own: number[] = [];
    for (const [i, span] of spans.entries()) if (span.has(node)) own.push(i);
    const key = own.join(' ');
    const same = known.get(key);
    if (same !== undefined) return same;
    const of = own.flatMap((i) => spans[i] ?? []);
    const view = toView(state, of, bodies, revision);
    known.set(key, view);
    return view;
  };
}

function toView(state: PublishedState, spans: readonly Span[], bodies: Bodies, revision: string): SharedView {
  const { compiled, bySpan } = state;
  const contents = spans.flatMap((span): GroupContent[] => [...(bySpan.get(span)?.values() ?? [])]);
  const addressSets = new Set([
    compiled.allNodes,
    compiled.controllers,
    ...contents.flatMap((one) => one.addressSets),
  ]);
  const serviceSets = new Set(contents.flatMap((one) => one.serviceSets));
  const toObject = (kind: HeldKind, id: string, body: Buffer): ViewObject => {
    return { kind, id, line: { revision, body } };
  };
  let objects: readonly ViewObject[] | null = null;
  let parts: ReadonlySet<string> | null = null;
  return {
    counts: {
      rules: contents.reduce((count, { rules }) => count + rules.length, 0),
      addressSets: addressSets.size,
      serviceSets: serviceSets.size,
    },
    objects() {
      objects ??= [
        ...picked(addressSets, compiled.addressSets).map((set) =>
          toObject('addressSets', set.id, bodies.addressSet(set)),
        ),
        ...picked(serviceSets, compiled.serviceSets).map((set) =>
          toObject('serviceSets', set.id, bodies.serviceSet(set)),
        ),
        ...contents
          .toSorted((a, b) => (a.part < b.part ? -1 : 1))
          .map((content) => toObject('rules', content.part, bodies.rules(content))),
      ];
      return objects;
    },
    has(kind, id) {
      if (kind === 'addressSets') return addressSets.has(id);
      if (kind === 'serviceSets') return serviceSets.has(id);
      parts ??= new Set(contents.map(({ part }) => part));
      return parts.has(id);
    },
  };
}

function picked<T>(ids: Iterable<string>, sets: ReadonlyMap<string, T>): T[] {
  return [...ids].sort().map((id) => {
    const set = sets.get(id);
    if (set === undefined) throw new Error(`unknown set ${id}`);
    return set;
  });
}
