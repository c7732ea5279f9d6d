import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { Update } from '../../apis/stream.ts';
import type { Stepwise } from '../../lib/sharing/stepwise.ts';
import type { Snapshot } from '../watch/source.ts';

/** An extension's part of the nodes' views, by node. */
type ExtensionPart = Pick<Compiled, 'egress'>;

/** Stage 2 of an extension: egress gateways are the only one. */
export interface CompileExtension {
  /** Changes nothing that others read. */
  compile(objects: ClusterObjects): Stepwise<ExtendedCompile>;
  /** Its state may be inconsistent, after an error: the next call starts from scratch. */
  restart(): void;
}

/** A compiled part that is not published yet. */
export interface ExtendedCompile {
  readonly part: ExtensionPart;
  /** The number of networks that do not count. */
  readonly ignoredNetworks: number;
  /** The part was sent to the nodes. */
  published(snapshot: Snapshot): void;
}

/** Stage 3 of an extension: its part of a node's view, as messages. */
export interface ViewExtension {
  /** The messages from one part to the next; none if either has no node. */
  changes(before: ExtensionPart, now: ExtensionPart): Stepwise<readonly ExtensionUpdate[]>;
  /** The whole part of a node; null: it has none. */
  whole(part: ExtensionPart, node: string): WholePart | null;
  /** Says that a node has none. */
  readonly removed: Update;
  /** Empties an object that a receiver holds; null for an id of a newer version. */
  empty(id: string): Update | null;
  /** The count that a bookmark has; without a field: the node has no part. */
  count(part: ExtensionPart, node: string): { readonly egress?: number };
  /** As it is printed. */
  written(state: NodeState): object;
}

/** A message, and the nodes that receive it. */
export interface ExtensionUpdate {
  readonly toUpdate: () => Update;
  readonly nodes: ReadonlySet<string>;
}

export interface WholePart {
  readonly first: Update;
  readonly objects: Iterable<ExtensionObject>;
}

/** A message's worth of a part. */
export interface ExtensionObject {
  /** Unique in the part. */
  readonly id: string;
  /** The object that it was made from: as long as that is the same, so is the message. */
  readonly of: object;
  /** Whether many nodes have it in common. */
  readonly isShared: boolean;
  readonly toMessage: () => Update;
}
