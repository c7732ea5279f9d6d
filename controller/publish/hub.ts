import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { HeldView } from '../../apis/held-view.ts';
import {
  type Endpoints,
  type GateUpdate,
  type GateValue,
  toWrittenEndpoints,
  type Update,
} from '../../apis/stream.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import { finish, type Stepwise } from '../../lib/sharing/stepwise.ts';
import type { WatchPosition } from '../watch/cluster/object-store.ts';
import {
  changeMessages,
  extensionMessages,
  type NodeCounts,
  nothingPublished,
  type PendingMessage,
  type PublishedState,
} from './changes.ts';
import { type Audience, type Line, messageBodies } from './messages.ts';
import { nodeView } from './node-view.ts';
import {
  formatRevision,
  type LoggedMessage,
  type LogLimits,
  parseRevision,
  ResumeLog,
} from './resume-log.ts';
import {
  Bookmarks,
  bookmarkCounts,
  type Receiver,
  type SharedView,
  ViewLines,
  viewsAt,
} from './view-lines.ts';

/**
 * Receives the next lines of a watcher's stream, in whole batches that each end with a bookmark.
 */
type Sink = (lines: readonly Line[]) => void;

export interface Watch {
  /** Sends a bookmark as a keep-alive. */
  bookmark(): void;
  close(): void;
}

interface HubOptions {
  /** The initial feature gate NodeNetworkPolicy. */
  readonly gate: GateValue;
  /** Identifies this instance of the hub; must be unique. Letters and digits. */
  readonly epoch?: string;
  readonly log?: LogLimits;
  /** The positions of the watches whose objects the published state was compiled from. */
  readonly watches?: () => readonly WatchPosition[];
}

interface Watcher extends Receiver {
  readonly sink: Sink;
  /** Counts the view that it has after the lines sent to it. */
  counts: NodeCounts;
}

interface WatchOptions {
  /** The view that the watcher holds. */
  readonly held?: HeldView | null;
  /** Whether the watcher knows the messages of egress gateways; absent: it does not. */
  readonly egress?: boolean;
}

interface State {
  readonly published: PublishedState;
  readonly log: ResumeLog;
  /** The shared part of a node's view, at this position. */
  readonly viewOf: (node: string) => SharedView;
}

/** Stage 3: publishes successive states, to each node the part that concerns it. No I/O. */
export class Hub {
  readonly #epoch: string;
  readonly #logLimits: LogLimits | undefined;
  readonly #bodies = messageBodies();
  readonly #watchers = new Watchers<Watcher>();
  readonly #watches: () => readonly WatchPosition[];
  #enabled: GateValue;
  /** Decides what is sent where a view has no egress gateways. */
  #isEgressUnset = false;
  #over: number | null = 0;
  #endpoints: readonly Endpoints[] = [];
  #position = 0;
  #state: State | null = null;

  constructor({
    gate,
    epoch = randomBytes(6).toString('hex'),
    log: logLimits,
    watches = () => [],
  }: HubOptions) {
    this.#epoch = epoch;
    this.#logLimits = logLimits;
    this.#watches = watches;
    this.#enabled = gate;
  }

  /**
   * Sends the changes since the last state to the watchers; the same JavaScript objects count as
   * unchanged. Each message is serialised once, for all its receivers. Returns the number of
   * messages. After an exception (a rule names a set that doesn't exist) nothing is sent until a
   * publish succeeds; then all watchers get a whole view.
   */
  publish(compiled: Compiled): number {
    return finish(this.prepare(compiled))();
  }

  /**
   * The part of `publish` that takes long and changes nothing yet; call the result, before anything
   * else is published.
   */
  *prepare(compiled: Compiled): Stepwise<() => number> {
    const last = this.#published(compiled);
    const extended = last === null ? [] : yield* extensionMessages(last.compiled, compiled, this.#bodies);
    return () => this.#publish(compiled, extended);
  }

  #publish(compiled: Compiled, extended: readonly PendingMessage[]): number {
    const [before, last] = [this.#state, this.#published(compiled)];
    const start = this.#position;
    this.#state = null;
    const { messages, published } = changeMessages(
      last ?? nothingPublished(compiled),
      compiled,
      this.#bodies,
      extended,
    );
    if (before === null || last === null) this.#restart(published);
    else if (messages.length === 0) this.#state = { ...before, published, viewOf: this.#viewsOf(published) };
    else this.#send(published, before.log, messages);
    return this.#position - start;
  }

  /** Null: watchers get whole views. */
  #published(compiled: Compiled): PublishedState | null {
    const last = this.#state?.published;
    return last !== undefined && haveSameSharedFields(last.compiled, compiled) ? last : null;
  }

  /** @param over seconds over which nodes follow if it is off, one by one; null: the usual time */
  setGate(wanted: GateValue, over: number | null = 0): void {
    if (wanted === this.#enabled && (wanted !== false || over === this.#over)) return;
    this.#enabled = wanted;
    this.#over = over;
    this.#sendToAll(this.#gateUpdate());
  }

  /** @param isUnset whether nodes keep what they steer where this controller has nothing of it */
  setEgressUnset(isUnset: boolean): void {
    if (isUnset === this.#isEgressUnset) return;
    this.#isEgressUnset = isUnset;
    const hasEgress = this.#state?.published.compiled.egress !== undefined;
    if (!isUnset && !hasEgress) this.#sendToAll({ type: 'egressRemoved' }, 'egress');
  }

  #gateUpdate(): GateUpdate {
    const over = this.#enabled !== false ? 0 : (this.#over ?? usualSwitchOff(this.nodes().size));
    return { type: 'gate', enabled: this.#enabled, ...(over === 0 ? {} : { over }) };
  }

  /** Sets the API server's endpoints, and sends them to all nodes. */
  setEndpoints(wanted: readonly Endpoints[]): void {
    if (isDeepStrictEqual(wanted, this.#endpoints)) return;
    this.#endpoints = wanted;
    this.#sendToAll({ type: 'endpoints', ...toWrittenEndpoints(wanted) });
  }

  get gate(): GateValue {
    return this.#enabled;
  }

  /** Whether a state has been published. */
  get ready(): boolean {
    return this.#state !== null;
  }

  /** The current position, as in bookmarks and lists. */
  get revision(): string {
    const position = this.#watches().map(({ newest }) => newest);
    return formatRevision({ epoch: this.#epoch, number: this.#position, position });
  }

  /**
   * Whether another hub's revision is of a newer state of the cluster, in any resource: its watcher
   * would go back in time here. False for revisions that are not comparable.
   */
  isBehind(resourceVersion: string): boolean {
    const { epoch, position = [] } = parseRevision(resourceVersion) ?? {};
    const watches = this.#watches();
    if (epoch === this.#epoch || position.length !== watches.length) return false;
    return watches.some(({ reached }, i) => reached < (position[i] ?? 0));
  }

  /** The number of watchers. */
  get watchers(): number {
    return this.#watchers.size;
  }

  /** The names of the existing Nodes. */
  nodes(): Pick<ReadonlyMap<string, unknown>, 'has' | 'size' | 'keys'> {
    return this.#state?.published.compiled.nodeAddresses ?? new Map();
  }

  get nodeCount(): number {
    return this.#state?.published.compiled.nodeAddresses.size ?? 0;
  }

  has(node: string): boolean {
    return this.#state?.published.compiled.nodeAddresses.has(node) ?? false;
  }

  /**
   * The state that a node must enforce; for a node that doesn't exist, one that no rule selects.
   */
  view(node: string): NodeState {
    return nodeView(this.#ready().published.compiled, node);
  }

  counts(node: string): NodeCounts {
    return this.#ready().viewOf(node).counts;
  }

  /**
   * Starts a watch. Before it returns, it passes to the sink the messages missed since
   * `resourceVersion`, if they are still in the log; otherwise the differences from `held`; without
   * that, the whole view. Passes later changes from within `publish`. Throws if the hub isn't
   * ready.
   */
  watch(
    node: string,
    resourceVersion: string | null,
    sink: Sink,
    { held = null, egress = false }: WatchOptions = {},
  ): Watch {
    const now = this.#ready();
    const watcher: Watcher = { node, sink, hasEgress: egress, counts: now.viewOf(node).counts };
    const lines =
      this.#missed(watcher, resourceVersion) ??
      (held === null ? null : this.#linesAt(now).differences(watcher, held));
    this.#watchers.add(node, watcher);
    if (lines === null) sink(this.#linesAt(now).whole(watcher));
    else sink([...lines, this.#bookmarks()(watcher)]);
    return {
      bookmark: () => sink([this.#bookmarks()(watcher)]),
      close: () => this.#watchers.remove(node, watcher),
    };
  }

  /** Whether a watch from `resourceVersion` gets the missed messages: no held view is needed. */
  canResume(node: string, resourceVersion: string | null): boolean {
    const position = this.#ownPosition(resourceVersion);
    return position !== null && this.#ready().log.reaches(position, node);
  }

  /** The current position, as in lines besides bookmarks: nobody resumes from there. */
  get #number(): string {
    return `${this.#epoch}.${this.#position}`;
  }

  #ready(): State {
    if (this.#state === null) throw new Error('no state has been published yet');
    return this.#state;
  }

  /** Rules may have moved to an equal list of nodes, which no message says: nothing is kept. */
  #viewsOf(published: PublishedState): (node: string) => SharedView {
    return viewsAt(published, this.#bodies, this.#number);
  }

  #linesAt({ published: { compiled }, viewOf }: State): ViewLines {
    const { revision } = this;
    const gate = this.#gateUpdate();
    const isEgressUnset = this.#isEgressUnset;
    const common = { compiled, viewOf, gate, isEgressUnset, endpoints: this.#endpoints };
    const present = { ...common, revision, number: this.#number };
    return new ViewLines(present, this.#bodies);
  }

  #bookmarks(): (watcher: Watcher) => Line {
    const bookmarks = new Bookmarks(this.revision);
    const compiled = this.#state?.published.compiled;
    return (watcher) => bookmarks.line(bookmarkCounts(watcher.counts, watcher, compiled));
  }

  /** Discards the log: all watchers get a whole view. */
  #restart(published: PublishedState): void {
    this.#position++;
    const now = {
      published,
      log: new ResumeLog(this.#position, this.#logLimits),
      viewOf: this.#viewsOf(published),
    };
    this.#state = now;
    const lines = this.#linesAt(now);
    for (const [node, watcher] of this.#watchers.all()) {
      watcher.counts = now.viewOf(node).counts;
      watcher.sink(lines.whole(watcher));
    }
  }

  #send(published: PublishedState, log: ResumeLog, messages: readonly PendingMessage[]): void {
    const due = new Map<Watcher, Line[]>();
    const entries: LoggedMessage[] = [];
    for (const message of messages) {
      this.#position++;
      const { audience, feature } = message;
      const line = { revision: this.#number, body: message.toBody(), ...(feature && { feature }) };
      entries.push({ line, position: this.#position, audience });
      for (const watcher of this.#watchers.of(audience)) {
        if (feature !== undefined && !watcher.hasEgress) continue;
        const lines = due.get(watcher);
        // A node may be in several spans of the audience.
        if (lines?.at(-1) === line) continue;
        if (lines === undefined) due.set(watcher, [line]);
        else lines.push(line);
        watcher.counts = sum(watcher.counts, message.counts);
      }
    }
    log.append(entries);
    this.#state = { published, log, viewOf: this.#viewsOf(published) };
    const bookmarkOf = this.#bookmarks();
    for (const [watcher, lines] of due) {
      lines.push(bookmarkOf(watcher));
      watcher.sink(lines);
    }
  }

  #sendToAll(update: Update, feature?: PendingMessage['feature']): void {
    if (this.#state === null) return;
    const counts = { rules: 0, addressSets: 0, serviceSets: 0 };
    this.#send(this.#state.published, this.#state.log, [
      { toBody: () => this.#bodies.once(update), audience: null, counts, ...(feature && { feature }) },
    ]);
  }

  /** The messages that a watcher has missed; null if it needs a whole view. */
  #missed({ node, hasEgress }: Watcher, resourceVersion: string | null): readonly Line[] | null {
    const position = this.#ownPosition(resourceVersion);
    const lines = position === null ? null : this.#ready().log.since(position, node);
    return lines?.filter(({ feature }) => feature === undefined || hasEgress) ?? null;
  }

  /** The position of a revision; null if it is not of this hub. */
  #ownPosition(resourceVersion: string | null): number | null {
    const revision = parseRevision(resourceVersion ?? '');
    return revision?.epoch !== this.#epoch || revision.number > this.#position ? null : revision.number;
  }
}

/**
 * Whether the fields of the node message that are the same for all nodes are unchanged. A change is
 * rare, and restarts all watchers.
 */
function haveSameSharedFields(a: Compiled, b: Compiled): boolean {
  return (
    a.allNodes === b.allNodes &&
    a.controllers === b.controllers &&
    (a.egress === undefined) === (b.egress === undefined) &&
    sameItems(a.apiServerPorts, b.apiServerPorts)
  );
}

function sum(a: NodeCounts, b: NodeCounts): NodeCounts {
  return {
    rules: a.rules + b.rules,
    addressSets: a.addressSets + b.addressSets,
    serviceSets: a.serviceSets + b.serviceSets,
  };
}

/** The watchers of each node. A node may have several. */
class Watchers<T> {
  readonly #byNode = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(node: string, watcher: T): void {
    const list = this.#byNode.get(node);
    if (list === undefined) this.#byNode.set(node, new Set([watcher]));
    else list.add(watcher);
    this.#size++;
  }

  remove(node: string, watcher: T): void {
    const list = this.#byNode.get(node);
    if (list?.delete(watcher) !== true) return;
    this.#size--;
    if (list.size === 0) this.#byNode.delete(node);
  }

  *all(): Iterable<readonly [node: string, watcher: T]> {
    for (const [node, list] of this.#byNode) for (const watcher of list) yield [node, watcher];
  }

  /** May return a watcher several times in a row, once for each span. */
  *of(audience: Audience): Iterable<T> {
    if (audience === null) {
      for (const [, watcher] of this.all()) yield watcher;
      return;
    }
    // Iterates over the smaller collection: the watched nodes, or the audience.
    if (audience.reduce((names, span) => names + span.size, 0) > this.#byNode.size) {
      for (const [node, list] of this.#byNode) if (audience.some((span) => span.has(node))) yield* list;
      return;
    }
    for (const span of audience) for (const node of span) yield* this.#byNode.get(node) ?? [];
  }
}

/** Seconds: for each node after the first, and at most. */
const FOR_EACH = 5;
const AT_MOST = 300;

/**
 * The usual time over which so many nodes follow a gate that is turned off (seconds): long enough
 * to take a mistake back in a large cluster, and no nuisance in a small one.
 */
export function usualSwitchOff(nodes: number): number {
  return Math.min(AT_MOST, FOR_EACH * Math.max(0, nodes - 1));
}
