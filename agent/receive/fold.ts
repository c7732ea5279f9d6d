import type { NodeState } from '../../apis/compiled.ts';
import { type HeldView, HeldViews } from '../../apis/held-view.ts';
import type { BookmarkUpdate, Endpoints, GateValue, StreamMessage, Update } from '../../apis/stream.ts';
import { advance, byId, type Held, NOTHING_RECEIVED } from './advance.ts';

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
