import type { Compiled } from '../../apis/compiled.ts';
import { HELD_KINDS, type HeldKind, type HeldView } from '../../apis/held-view.ts';
import { type Endpoints, type GateUpdate, toWrittenEndpoints, type Update } from '../../apis/stream.ts';
import { nodeMessage } from '../../apis/wire.ts';
import { VIEW_EXTENSION } from '../extension/view.ts';
import type { Bodies, Line } from './bodies.ts';
import { bookmarkCounts, type Receiver } from './bookmarks.ts';
import type { SharedView, ViewObject } from './shared-view.ts';

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
